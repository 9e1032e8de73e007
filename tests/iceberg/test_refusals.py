"""What every write refuses, with our own error and the table unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError, NotFoundError, PuffinFastError, UnsupportedError
from puffin_fast.iceberg._pyiceberg import v3_metadata
from tests.iceberg.conftest import files_of, local, rows_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.iceberg.conftest import RacingCatalog

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "w": [f"w{i % 9}" for i in range(100)]})

WRITES: dict[str, Callable[[Table], Any]] = {
    "append": lambda table: iceberg.append(table, ROWS),
    "delete": lambda table: iceberg.delete(table, "id < 10"),
    "delete_keys": lambda table: iceberg.delete_keys(table, pa.table({"id": [3, 4]}), ["id"]),
    "upsert": lambda table: iceberg.upsert(
        table, ROWS.slice(5, 3).set_column(1, "w", [["a", "b", "c"]]), ["id"]
    ),
    "delete_positions": lambda table: iceberg.delete_positions(
        table,
        pa.table({"file_path": [iceberg.plan_files(table).tasks[0].data.file_path], "pos": [1]}),
    ),
}


@pytest.fixture(params=[2, 3])
def table(request: pytest.FixtureRequest, racing: RacingCatalog) -> Table:
    """A table ``n.t`` of version 2 or 3 with 100 rows."""
    properties = {"format-version": str(request.param)}
    with v3_metadata(racing):
        made = racing.create_table("n.t", ROWS.schema, properties=properties)
    iceberg.append(made, ROWS)
    return made


@pytest.mark.parametrize("write", WRITES)
def test_a_place_that_takes_no_files(racing: RacingCatalog, table: Table, write: str) -> None:
    a_file = racing.properties["uri"].removeprefix("sqlite:///")
    with v3_metadata(racing):
        table.transaction().set_properties({"write.data.path": f"file://{a_file}/x"}).commit_transaction()
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


@pytest.mark.parametrize("write", [name for name in WRITES if name != "delete_positions"])
def test_a_format_version_above_3(table: Table, write: str) -> None:
    path = local(table.metadata_location)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"format-version": 4}))
    before = files_of(table)
    with pytest.raises(UnsupportedError, match=r"n\.t"):
        WRITES[write](table)
    assert files_of(table) == before


@pytest.mark.parametrize("write", [name for name in WRITES if name != "delete_positions"])
def test_a_table_that_is_gone(racing: RacingCatalog, table: Table, write: str) -> None:
    racing.drop_table("n.t")
    with pytest.raises(NotFoundError, match=r"n\.t"):
        WRITES[write](table)


def test_rows_with_a_key_that_came_in_meanwhile_go_too(racing: RacingCatalog, table: Table) -> None:
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
