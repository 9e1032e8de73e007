"""Arguments of the verbs: keys and rows of any DataFrame, points in time, threads, tables by name."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, UUIDType

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError
from tests.kit.cases import each

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.iceberg.conftest import RacingCatalog

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
IDS = [uuid.UUID(int=number << 64 | number) for number in range(10)]


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    made = iceberg.create_table(racing, "n.t", ROWS.schema)
    iceberg.append(made, ROWS)
    return made


@pytest.fixture
def of_uuids(racing: RacingCatalog) -> Table:
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "u", UUIDType(), required=False)
    )
    made = iceberg.create_table(racing, "n.u", schema)
    values = pa.array([value.bytes for value in IDS[:-1]] + [None], pa.binary(16))
    iceberg.append(made, ROWS.append_column("u", pa.ExtensionArray.from_storage(pa.uuid(), values)))
    return made


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_keys_of_a_uuid_column_may_be_text(of_uuids: Table, kind: pa.DataType) -> None:
    texts = [str(IDS[1]), str(IDS[2]).upper(), IDS[3].hex, "no uuid", str(IDS[4]) + "\n", None]
    keys = pa.table({"u": pa.array(texts, pa.string()).cast(kind)})
    assert iceberg.delete_keys(of_uuids, keys, "u").rows_deleted == 3
    assert iceberg.scan(of_uuids).to_arrow()["id"].to_pylist() == [0, 4, 5, 6, 7, 8, 9]
    assert iceberg.delete_keys(of_uuids, keys, "u", null_safe=True).rows_deleted == 1


def test_keys_of_a_uuid_column_may_come_from_a_dataframe(of_uuids: Table) -> None:
    for frame, at in ((pl.DataFrame({"u": [str(IDS[5])]}), 5), (pd.DataFrame({"u": [str(IDS[6])]}), 6)):
        assert iceberg.delete_keys(of_uuids, frame, "u").rows_deleted == 1
        assert at not in iceberg.scan(of_uuids).to_arrow()["id"].to_pylist()


NO_ROWS = {
    "a Polars series": pl.Series("id", [1]),
    "a pandas series": pd.Series([1], name="id"),
    "an Arrow array": pa.array([1]),
    "a chunked array": pa.chunked_array([[1]]),
    "a list": [1],
    "text": "ns.t",
    "nothing": None,
}


@pytest.mark.parametrize("rows", NO_ROWS.values(), ids=NO_ROWS)
def test_arguments_that_are_not_arrow_rows_are_refused(table: Table, rows: Any) -> None:
    verbs: list[tuple[str, Callable[[], Any]]] = [
        ("data", lambda: iceberg.append(table, rows)),
        ("data", lambda: iceberg.upsert(table, rows, "id")),
        ("deletes", lambda: iceberg.delete_positions(table, rows)),
    ]
    if rows is None or isinstance(rows, str):  # the others are keys of one column
        verbs.append(("keys", lambda: iceberg.delete_keys(table, rows, "id")))
    for what, verb in verbs:
        with pytest.raises(InvalidInputError, match=f"^{what}: expected Arrow rows"):
            verb()


def test_a_point_in_time_is_milliseconds_a_datetime_or_text(table: Table) -> None:
    (entry,) = table.metadata.snapshot_log
    at = datetime.fromtimestamp(entry.timestamp_ms / 1000 + 1, UTC)
    for as_of in (entry.timestamp_ms, at, at.isoformat(), at.isoformat(" "), "2100-01-01T00:00Z"):
        assert iceberg.scan(table, as_of=as_of).to_arrow().num_rows == 10
    with pytest.raises(NotFoundError, match="at or before"):
        iceberg.scan(table, as_of="1970-01-02T00:00+01:00")


@pytest.mark.parametrize(
    "as_of",
    ["2030-01-01", "2030-01-01T00:00:00", "yesterday", "", 1.5, True, date(2030, 1, 1), datetime(2030, 1, 1)],
)
def test_an_invalid_point_in_time_is_refused(table: Table, as_of: Any) -> None:
    for verb in (iceberg.scan, iceberg.plan_files, iceberg.verify, iceberg.deletes, iceberg.report):
        with pytest.raises(InvalidInputError, match="as_of="):
            verb(table, as_of=as_of)


def calls(table: Any, **options: Any) -> dict[str, Callable[[], Any]]:
    """Every verb that takes threads, on a table."""
    positions = pa.table({"file_path": ["x"], "pos": [0]})
    return {
        "collect_ndv": lambda: iceberg.collect_ndv(table, **options),
        "compact": lambda: iceberg.compact(table, **options),
        "convert_equality_deletes": lambda: iceberg.convert_equality_deletes(table, **options),
        "convert_position_deletes": lambda: iceberg.convert_position_deletes(table, **options),
        "delete": lambda: iceberg.delete(table, "id = 1", **options),
        "delete_keys": lambda: iceberg.delete_keys(table, ROWS, "id", **options),
        "delete_positions": lambda: iceberg.delete_positions(table, positions, **options),
        "orphan_files": lambda: iceberg.orphan_files(table, **options),
        "repair": lambda: iceberg.repair(table, **options),
        "rewrite_data_files": lambda: iceberg.rewrite_data_files(table, **options),
        "scan": lambda: iceberg.scan(table, **options),
        "update": lambda: iceberg.update(table, "id = 1", {"id": 2}, **options),
        "upsert": lambda: iceberg.upsert(table, ROWS, "id", **options),
        "verify": lambda: iceberg.verify(table, **options),
    }


@each("verb", calls(None))
@each("threads", [-1, 0, 1.5, "2"])
def test_a_number_of_threads_below_one_is_refused(table: Table, verb: str, threads: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=r"threads: expected (an integer of )?at least 1, or None, found"
    ):
        calls(table, threads=threads)[verb]()


@each("verb", [*calls(None), "append", "deletes", "ndv", "plan_files", "report", "upgrade"])
@each("given", ["ns.t", None, ROWS], ids=["a name", "nothing", "rows"])
def test_arguments_that_are_not_tables_are_refused(verb: str, given: Any) -> None:
    more = {
        "append": lambda: iceberg.append(given, ROWS),
        "deletes": lambda: iceberg.deletes(given),
        "ndv": lambda: iceberg.ndv(given),
        "plan_files": lambda: iceberg.plan_files(given),
        "report": lambda: iceberg.report(given),
        "upgrade": lambda: iceberg.upgrade(given),
    }
    with pytest.raises(InvalidInputError, match="table: expected a PyIceberg table"):
        (calls(given) | more)[verb]()


def test_arguments_that_are_not_catalogs_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"catalog: expected a PyIceberg catalog .*, found str"):
        iceberg.create_table("shop", "n.t", ROWS.schema)  # type: ignore[arg-type]
