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
    ConflictError,
    CorruptDataError,
    LimitExceededError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.manifest import ADDED, EQUALITY_DELETES
from tests.iceberg.conftest import files_of, local, rows_of, set_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg.manifest import ManifestEntry
    from tests.iceberg.conftest import RacingCatalog

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "w": [f"w{i % 9}" for i in range(100)]})

WRITES: dict[str, Callable[[Table], Any]] = {
    "append": lambda table: iceberg.append(table, ROWS),
    "delete": lambda table: iceberg.delete(table, "id < 10"),
    "delete_keys": lambda table: iceberg.delete_keys(table, pa.table({"id": [3, 4]}), ["id"]),
    "update": lambda table: iceberg.update(table, "id < 10", {"w": "new"}),
    "upsert": lambda table: iceberg.upsert(
        table, ROWS.slice(5, 3).set_column(1, "w", [["a", "b", "c"]]), ["id"]
    ),
    "delete_positions": lambda table: iceberg.delete_positions(
        table,
        pa.table({"file_path": [iceberg.plan_files(table).tasks[0].data.file_path], "pos": [1]}),
    ),
}

REWRITES: dict[str, Callable[[Table], Any]] = {
    job.__name__: job for job in (iceberg.compact, iceberg.repair, iceberg.convert_position_deletes)
} | {"rewrite_data_files": lambda table: iceberg.rewrite_data_files(table, min_deleted=0.01)}


@pytest.fixture(params=[2, 3])
def table(request: pytest.FixtureRequest, racing: RacingCatalog) -> Table:
    """A table ``n.t`` of version 2 or 3 with 100 rows."""
    properties = {"format-version": str(request.param)}
    with v3_metadata(racing):
        made = racing.create_table("n.t", ROWS.schema, properties=properties)
    iceberg.append(made, ROWS)
    return made


@pytest.mark.parametrize("write", WRITES)
def test_a_location_without_write_access_is_named(racing: RacingCatalog, table: Table, write: str) -> None:
    a_file = racing.properties["uri"].removeprefix("sqlite:///")
    set_properties(table, {"write.data.path": f"file://{a_file}/x"})
    before = files_of(table)
    with pytest.raises(PuffinFastError):
        WRITES[write](table)
    assert files_of(table) == before
    assert rows_of(racing.load_table("n.t")).equals(rows_of(table))


@pytest.mark.parametrize("write", WRITES)
def test_metadata_that_cannot_be_written(racing: RacingCatalog, table: Table, write: str) -> None:
    before = files_of(table)

    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    racing._write_metadata = read_only  # type: ignore[method-assign]
    with pytest.raises(PuffinFastError, match="Read-only file system"):
        WRITES[write](table)
    assert files_of(table) == before


@pytest.mark.parametrize(
    "write", [*(name for name in WRITES if name != "delete_positions"), *REWRITES, "upgrade"]
)
def test_a_format_version_above_3(table: Table, write: str) -> None:
    jobs = WRITES | REWRITES | {"upgrade": iceberg.upgrade}
    path = local(table.metadata_location)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"format-version": 4}))
    before = files_of(table)
    with pytest.raises(UnsupportedError, match=r"n\.t"):
        jobs[write](table)
    assert files_of(table) == before


@pytest.mark.parametrize("write", [name for name in WRITES if name != "delete_positions"])
def test_a_dropped_table_is_named(racing: RacingCatalog, table: Table, write: str) -> None:
    racing.drop_table("n.t")
    with pytest.raises(NotFoundError, match=r"n\.t"):
        WRITES[write](table)


# Files and metadata of a table ----------------------------------------------------------------------------


@pytest.fixture
def deleted(racing: RacingCatalog) -> Table:
    """A table of version 3 with two data files, each with a vector in a file of its own."""
    made = iceberg.create_table(racing, "n.t", ROWS.schema)
    for first in (0, 50):
        iceberg.append(made, ROWS.slice(first, 50))
        iceberg.delete(made, f"id = {first + 20}")
    return made


def lie(table: Table, entry: ManifestEntry, **wrong: Any) -> None:
    """Commits an entry again, with wrong fields."""
    new = {"status": ADDED, "snapshot_id": None, "sequence_number": None, "file_sequence_number": None}
    changes = Changes(added=(replace(entry, **(new | wrong)),), removed=(entry,))
    commit(table, changes, base=table.current_snapshot())


def damage(table: Table, wrong: str) -> None:
    """Breaks the vector of the first data file, or has its entry lie about it."""
    task = next(
        t for t in iceberg.plan_files(table).tasks if t.vector is not None and t.vector.sequence_number == 2
    )
    vector = task.vector
    assert vector is not None
    path, offset, length = (
        local(vector.file_path),
        vector.content_offset or 0,
        vector.content_size_in_bytes or 0,
    )
    content = path.read_bytes()
    if wrong == "a flipped bit":
        path.write_bytes(content[: offset + 9] + bytes([content[offset + 9] ^ 1]) + content[offset + 10 :])
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
            "data file": {"referenced_data_file": None},
        }
        lie(table, vector, **wrongs[wrong])


WRONG = ["a flipped bit", "cut short", "gone", "cardinality", "offset", "length", "a length of terabytes"]


@pytest.mark.parametrize(
    ("write", "wrong"),
    [
        *(("delete", wrong) for wrong in WRONG),
        *(("compact", wrong) for wrong in WRONG[:-1]),  # a file of terabytes is large enough for it
        *((write, wrong) for write in ("delete_keys", "delete_positions", "upsert") for wrong in WRONG[2:4]),
    ],
)
def test_a_vector_that_disagrees_with_the_manifest_is_refused(deleted: Table, write: str, wrong: str) -> None:
    damage(deleted, wrong)
    before, head = files_of(deleted), deleted.metadata.current_snapshot_id
    positions = {
        "file_path": [task.data.file_path for task in iceberg.plan_files(deleted).tasks],
        "pos": [1, 1],
    }
    jobs = (
        WRITES | REWRITES | {"delete_positions": lambda t: iceberg.delete_positions(t, pa.table(positions))}
    )
    with pytest.raises((CorruptDataError, NotFoundError, LimitExceededError), match=r"\.puffin"):
        jobs[write](deleted)
    deleted.refresh()
    assert (files_of(deleted), deleted.metadata.current_snapshot_id) == (before, head)
    with pytest.raises((CorruptDataError, NotFoundError, LimitExceededError), match=r"\.puffin"):
        iceberg.scan(deleted).to_arrow()
    assert (
        iceberg.scan(deleted, "id >= 50").to_arrow().num_rows == 49
    )  # the other data file is none the worse


def test_a_vector_that_names_no_data_file_is_refused(deleted: Table) -> None:
    damage(deleted, "data file")
    before = files_of(deleted)
    for job in (WRITES["delete"], WRITES["upsert"], lambda table: iceberg.scan(table).to_arrow()):
        with pytest.raises(CorruptDataError, match="deletion vector without referenced_data_file"):
            job(deleted)
    assert files_of(deleted) == before


@pytest.mark.parametrize("write", ["delete", "delete_keys", "upsert"])
def test_a_data_file_that_disagrees_with_the_manifest_is_refused(
    racing: RacingCatalog, table: Table, write: str
) -> None:
    (task,) = iceberg.plan_files(table).tasks
    lie(table, task.data, record_count=99)
    before = files_of(table)
    with pytest.raises(CorruptDataError, match=r"expected 99 \(manifest\), found 100"):
        WRITES[write](table)
    assert files_of(table) == before


def test_rows_with_a_key_that_a_concurrent_commit_added_are_deleted_too(
    racing: RacingCatalog, table: Table
) -> None:
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.append(other, ROWS.slice(3, 2)))
    done = iceberg.delete_keys(table, pa.table({"id": [3, 50]}), ["id"])
    assert (done.rows_deleted, done.attempts) == (3, 2)
    assert sorted(set(range(100)) - set(rows_of(table)["id"].to_pylist())) == [3, 50]
    racing.before.append(lambda: iceberg.append(other, ROWS.slice(80, 2)))
    assert iceberg.delete_keys(table, pa.table({"id": [60]}), ["id"]).attempts == 2
    racing.before.append(lambda: iceberg.delete(other, "id = 7"))
    with pytest.raises(ConflictError):
        iceberg.delete_keys(table, pa.table({"id": [8]}), ["id"])
    racing.before.append(lambda: iceberg.delete(other, "id = 9"))
    done = iceberg.delete_keys(table, pa.table({"id": [8, 9]}), ["id"], on_conflict="merge")
    assert done.rows_deleted == 1
    left = rows_of(table)["id"].to_pylist()
    assert not {3, 7, 8, 9, 50, 60} & set(left)


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
        pq.write_table(ROWS.slice(0, 3).select(["id"]).cast(KEYS), local(path))
        added = replace(deletes, **nothing, status=ADDED, record_count=3, first_row_id=None)
        commit(table, Changes(added=(added,)), base=table.current_snapshot())
    before, metadata = files_of(table), table.metadata_location
    jobs = READS | WRITES | {"convert_equality_deletes": iceberg.convert_equality_deletes}
    with pytest.raises(WRONG_FORMATS[kind], match=rf"(?i){task.data.file_path}.*{kind}"):
        jobs[job](table)
    assert files_of(table) == before
    assert table.refresh().metadata_location == metadata


@pytest.mark.parametrize("kind", WRONG_FORMATS)
@pytest.mark.parametrize("job", [*READS, "delete", "delete_keys", "upsert", "convert_position_deletes"])
def test_position_deletes_of_another_format_are_named(racing: RacingCatalog, kind: str, job: str) -> None:
    with v3_metadata(racing):
        table = racing.create_table("n.t", ROWS.schema, properties={"format-version": "2"})
    iceberg.append(table, ROWS)
    iceberg.delete_positions(
        table,
        pa.table({"file_path": [iceberg.plan_files(table).tasks[0].data.file_path] * 2, "pos": [1, 9]}),
    )
    ((deletes,),) = [task.position_deletes for task in iceberg.plan_files(table).tasks]
    lie(table, deletes, file_format=kind)
    iceberg.upgrade(table)
    before, metadata = files_of(table), table.metadata_location
    jobs = READS | WRITES | {"convert_position_deletes": iceberg.convert_position_deletes}
    with pytest.raises(WRONG_FORMATS[kind], match=rf"(?i){deletes.file_path}.*{kind}"):
        jobs[job](table)
    assert files_of(table) == before
    assert table.refresh().metadata_location == metadata
