"""Every write refuses bad metadata and files with an error of this package, and does not change the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import (
    CorruptDataError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg import v3_metadata
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.manifest import ADDED, EQUALITY_DELETES
from tests.iceberg.conftest import current_snapshot, refused, rows_of, set_properties
from tests.iceberg.verbs import REWRITES, ROWS, WRITES, position
from tests.kit.tables import files_of, iceberg_table, parts, path_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg.manifest import ManifestEntry
    from tests.kit.faults import RacingCatalog


@pytest.fixture(params=[2, 3])
def table(request: pytest.FixtureRequest, racing: RacingCatalog) -> Table:
    return iceberg_table(racing, ROWS, version=request.param)


@pytest.mark.parametrize("write", WRITES)
def test_a_location_without_write_access_is_named(racing: RacingCatalog, table: Table, write: str) -> None:
    a_file = racing.properties["uri"].removeprefix("sqlite:///")
    set_properties(table, {"write.data.path": f"file://{a_file}/x"})
    with refused(table, PuffinFastError):
        WRITES[write](table)
    assert rows_of(racing.load_table("n.t")).equals(rows_of(table))


@pytest.mark.parametrize("write", WRITES)
def test_metadata_that_cannot_be_written(racing: RacingCatalog, table: Table, write: str) -> None:
    def read_only(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    racing._write_metadata = read_only  # type: ignore[method-assign]
    with refused(table, PuffinFastError, "Read-only file system"):
        WRITES[write](table)


def test_tables_of_version_1_and_branches_that_are_missing_are_refused(racing: RacingCatalog) -> None:
    table = racing.create_table("n.t", ROWS.schema, properties={"format-version": "1"})
    table.append(ROWS)
    for write in WRITES.values():
        with refused(table, UnsupportedError, r"format version 1, .*upgrade"):
            write(table)
    iceberg.upgrade(table)
    with v3_metadata(racing):
        table.manage_snapshots().create_tag(current_snapshot(table).snapshot_id, "tag").commit()
    for write in WRITES.values():
        with refused(table, NotFoundError, "branch 'twig'"):
            write(table, branch="twig")
        with refused(table, InvalidInputError, "'tag' is a tag"):
            write(table, branch="tag")


def test_a_format_version_above_3(table: Table) -> None:
    path = path_of(table.metadata_location)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format-version": 4}))
    files = files_of(table)
    for name, job in (WRITES | REWRITES | {"upgrade": iceberg.upgrade}).items():
        if name != "delete_positions":  # its arguments need a plan
            with pytest.raises(UnsupportedError, match=r"n\.t"):
                job(table)
    assert files_of(table) == files


def test_a_dropped_table_is_named(racing: RacingCatalog, table: Table) -> None:
    position(table)
    racing.drop_table("n.t")
    for name, write in WRITES.items():
        if name != "delete_positions":
            with pytest.raises(NotFoundError, match=r"n\.t"):
                write(table)


# Files and metadata of a table ----------------------------------------------------------------------------


@pytest.fixture
def deleted(racing: RacingCatalog) -> Table:
    """A table of version 3 with two data files, each with a vector in a file of its own."""
    made = iceberg_table(racing, parts(ROWS, 2))
    for id in (20, 70):
        iceberg.delete(made, f"id = {id}")
    return made


def lie(table: Table, entry: ManifestEntry, **wrong: Any) -> None:
    """Commits an entry again, with wrong fields."""
    new = {"status": ADDED, "snapshot_id": None, "sequence_number": None, "file_sequence_number": None}
    changes = Changes(added=(replace(entry, **(new | wrong)),), removed=(entry,))
    commit(table, changes, base=table.current_snapshot())


def damage(table: Table, wrong: str) -> None:
    """Breaks the vector of the first data file, or has its entry lie about it."""
    (vector,) = (
        task.vector
        for task in iceberg.plan_files(table).tasks
        if task.vector is not None and task.vector.sequence_number == 3
    )
    path, offset, length = path_of(vector.file_path), vector.content_offset, vector.content_size_in_bytes
    assert offset is not None
    assert length is not None
    content = bytearray(path.read_bytes())
    if wrong == "a flipped bit":
        content[offset + 9] ^= 1
        path.write_bytes(content)
    elif wrong == "cut short":
        path.write_bytes(content[: offset + length - 1])
    elif wrong == "gone":
        path.unlink()
    else:
        wrongs: dict[str, dict[str, Any]] = {
            "cardinality": {"record_count": 2},
            "offset": {"content_offset": offset + 1},
            "length": {"content_size_in_bytes": length - 1},
            "a length of terabytes": {"content_size_in_bytes": 1 << 42},
            "no data file": {"referenced_data_file": None},
        }
        lie(table, vector, **wrongs[wrong])


WRONG = ["a flipped bit", "cut short", "gone", "cardinality", "offset", "length", "a length of terabytes"]


@pytest.mark.parametrize(
    ("write", "wrong"),
    [
        *(("delete", wrong) for wrong in [*WRONG, "no data file"]),
        *(("compact", wrong) for wrong in WRONG[:-1]),  # a file of terabytes is large enough for it
        *((write, wrong) for write in ("delete_keys", "delete_positions", "upsert") for wrong in WRONG[2:4]),
        ("upsert", "no data file"),
    ],
)
def test_a_vector_that_disagrees_with_the_manifest_is_refused(deleted: Table, write: str, wrong: str) -> None:
    of_both = {
        "file_path": [task.data.file_path for task in iceberg.plan_files(deleted).tasks],
        "pos": [1, 1],
    }
    damage(deleted, wrong)
    jobs = {
        write: (WRITES | REWRITES)[write],
        "delete_positions": lambda t: iceberg.delete_positions(t, pa.table(of_both)),
        "scan": lambda t: iceberg.scan(t).to_arrow(),
    }
    said = "deletion vector without referenced_data_file" if wrong == "no data file" else r"\.puffin"
    for name in (write, "scan"):
        with refused(deleted, (CorruptDataError, NotFoundError, LimitExceededError), said):
            jobs[name](deleted)
    if wrong != "no data file":  # the other data file is none the worse
        assert iceberg.scan(deleted, "id >= 50").to_arrow().num_rows == 49


@pytest.mark.parametrize("write", ["delete", "delete_keys", "upsert"])
def test_a_data_file_that_disagrees_with_the_manifest_is_refused(
    racing: RacingCatalog, table: Table, write: str
) -> None:
    (task,) = iceberg.plan_files(table).tasks
    lie(table, task.data, record_count=99)
    with refused(table, CorruptDataError, r"expected 99 \(manifest\), found 100"):
        WRITES[write](table)


# Files of other formats ------------------------------------------------------------------------------------

KEYS = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])

READS: dict[str, Callable[[Table], Any]] = {
    "scan": lambda table: iceberg.scan(table).to_arrow(),
    "scan a filter": lambda table: iceberg.scan(table, "id < 10", ["w"]).to_arrow(),
}


WRONG_FORMATS: dict[str, type[PuffinFastError]] = {
    "ORC": CorruptDataError,
    "AVRO": CorruptDataError,
    "VORTEX": UnsupportedError,
}
"""What a manifest may say of a Parquet file, and the error that follows."""


@pytest.mark.parametrize("kind", WRONG_FORMATS)
@pytest.mark.parametrize("job", [*READS, "delete", "delete_keys", "upsert", "convert_equality_deletes"])
def test_data_files_of_another_format_are_named(table: Table, kind: str, job: str) -> None:
    iceberg.upgrade(table)
    (task,) = iceberg.plan_files(table, metrics=True).tasks
    lie(table, task.data, file_format=kind, first_row_id=None)
    if job == "convert_equality_deletes":
        path = task.data.file_path + ".equal"
        deletes = replace(task.data, content=EQUALITY_DELETES, file_path=path, equality_ids=[1])
        nothing: dict[str, Any] = dict.fromkeys(("snapshot_id", "sequence_number", "file_sequence_number"))
        pq.write_table(ROWS.slice(0, 3).select(["id"]).cast(KEYS), path_of(path))
        added = replace(deletes, **nothing, status=ADDED, record_count=3, first_row_id=None)
        commit(table, Changes(added=(added,)), base=table.current_snapshot())
    with refused(table, WRONG_FORMATS[kind], rf"(?i){task.data.file_path}.*{kind}"):
        (READS | WRITES | REWRITES)[job](table)


@pytest.mark.parametrize("kind", WRONG_FORMATS)
@pytest.mark.parametrize("job", [*READS, "delete", "delete_keys", "upsert", "convert_position_deletes"])
def test_position_deletes_of_another_format_are_named(racing: RacingCatalog, kind: str, job: str) -> None:
    table = iceberg_table(racing, ROWS, version=2)
    WRITES["delete_positions"](table)
    ((deletes,),) = [task.position_deletes for task in iceberg.plan_files(table).tasks]
    lie(table, deletes, file_format=kind)
    iceberg.upgrade(table)
    with refused(table, WRONG_FORMATS[kind], rf"(?i){deletes.file_path}.*{kind}"):
        (READS | WRITES | REWRITES)[job](table)
