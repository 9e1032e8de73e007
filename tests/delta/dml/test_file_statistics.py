"""The statistics of new data files: bounds that hold for every reader, of the columns that Spark has them for."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.types import DoubleType, FloatType

from puffin_fast import delta, errors
from puffin_fast.delta.scans.statistics import Statistics
from tests.conftest import require_module
from tests.delta.tables import configure
from tests.kit.tables import delta_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def statistics(table: Path) -> list[dict[str, Any]]:
    """The statistics of each live file."""
    base = delta.snapshot(table)
    return [json.loads(add["stats"]) for add in base.adds(range(base.files.num_rows))]


def signed(value: float) -> tuple[float, float]:
    return value, math.copysign(1, value)


ZEROS = ([-0.0, 0.0], [0.0, -0.0], [-0.0], [0.0], [-3.0, -0.0], [0.0, 2.0], [None, -0.0])


def update(table: Path, rows: pa.Table) -> None:
    delta.append(table, rows.set_column(2, "n", pa.array([7] * len(rows))))
    delta.update(table, "n = 7", {"n": 0})


def upsert(table: Path, rows: pa.Table) -> None:
    delta.append(table, pa.table({"id": [0]}))
    delta.upsert(table, rows, "id")


def rewrite(table: Path, rows: pa.Table) -> None:
    delta.append(table, pa.concat_tables([rows, rows.set_column(2, "n", pa.array([7] * len(rows)))]))
    delta.delete(table, "n = 7")
    assert delta.rewrite_data_files(table, min_deleted=0.1).data_files == 1


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("write", [delta.append, update, upsert, delta.overwrite, rewrite])
def test_a_bound_of_zero_has_the_sign_that_excludes_no_zero(
    write: Callable[[Path, pa.Table], object],
    kind: pa.DataType,
    tmp_path: Path,
    duckdb_delta: DuckDBPyConnection,
) -> None:
    """Delta's kernel for Rust compares bounds in an order in which -0.0 is less than 0.0."""
    deltalake: Any = require_module("deltalake")
    for number, values in enumerate(ZEROS):
        n, table = len(values), tmp_path / str(number)
        nested = pa.array([{"y": value} for value in values], pa.struct([("y", kind)]))
        columns = {"id": range(n), "x": pa.array(values, kind), "n": [0] * n, "s": nested}
        delta.create_table(table, pa.table(columns).schema)
        write(table, pa.table(columns))
        for found in statistics(table):
            for side, zero in (("minValues", -0.0), ("maxValues", 0.0)):
                for bound in (found[side]["x"], found[side]["s"]["y"]):
                    assert bound != 0 or signed(bound) == signed(zero)
        reader = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
        for name in ("x", "s.y"):
            for sign, compare in (("=", operator.eq), (">=", operator.ge), ("<=", operator.le)):
                condition = f"{name} {sign} 0"
                expected = sum(value is not None and compare(value, 0) for value in values)
                query = f"SELECT count(*) FROM {{}} WHERE {condition}"
                ((theirs,),) = duckdb_delta.execute(query.format(f"delta_scan('{table}')")).fetchall()
                theirs_too = pa.table(reader.execute(query.format("t")).read_all())[0][0].as_py()
                assert [theirs, theirs_too, delta.scan(table, condition).count()] == [expected] * 3, condition


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()])
def test_bounds_of_zero_of_other_writers_are_widened_to_both_zeros(kind: Any) -> None:
    """They become bounds of an Iceberg table, whose readers may compare in such an order, too."""
    ends = [(0.0, -0.0), (-0.0, 0.0), (0.0, 2.0), (-3.0, -0.0)]
    texts = [json.dumps({"minValues": {"x": low}, "maxValues": {"x": high}}) for low, high in ends]
    found = Statistics.of(pa.chunked_array([[*texts, "{}"]]), {1: (("x",), kind)}, "table")
    lower, upper = found.lower[1].to_pylist(), found.upper[1].to_pylist()
    assert list(map(signed, lower[:-1])) == [signed(low or -0.0) for low, _ in ends]
    assert list(map(signed, upper[:-1])) == [signed(high or 0.0) for _, high in ends]
    assert (lower[-1], upper[-1]) == (None, None)


NESTED = pa.struct([("x", pa.int32()), ("Y", pa.string()), ("t", pa.struct([("z", pa.float64())]))])
COLUMNS = {
    "id": pa.array([1]),
    "Upper": pa.array(["u"]),
    "s": pa.array([{"x": 1, "Y": "p", "t": {"z": 0.5}}], NESTED),
    "p": pa.array(["part"]),
    "a.b": pa.array([3]),
    "c,d": pa.array([4]),
    "e`f": pa.array([5]),
    "l": pa.array([[1]]),
    "last": pa.array([9]),
}
LEAVES = ["id", "Upper", "s.x", "s.Y", "s.t.z", "a.b", "c,d", "e`f", "l", "last"]
PLAIN = ("id", "Upper", "s", "p", "last")
"""Names that need no column mapping."""
CHOSEN: dict[str, list[str]] = {
    "id": ["id"],
    "ID, upper": ["id", "Upper"],
    "s": ["s.x", "s.Y", "s.t.z"],
    "s.y": ["s.Y"],
    "s.`Y`": ["s.Y"],
    "`s` . `Y` , id": ["id", "s.Y"],
    "S.T": ["s.t.z"],
    "s.t.z,s.x": ["s.x", "s.t.z"],
    "": [],
    " ": [],
    "`a.b`": ["a.b"],
    "`c,d`,last": ["c,d", "last"],
    "`e``f`": ["e`f"],
}


def columns_with_statistics(table: Path) -> list[str]:
    """The columns with null counts, by their logical names."""
    base = delta.snapshot(table)
    ((stats),) = statistics(table)

    def named(fields: Any, found: dict[str, Any], above: str) -> list[str]:
        names: list[str] = []
        for field in fields:
            stored = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
            name = f"{above}{field['name']}"
            if isinstance(found.get(stored), dict):
                names += named(field["type"]["fields"], found[stored], f"{name}.")
            elif stored in found:
                names.append(name)
        return names

    bounded = named(base.delta_schema["fields"], stats["minValues"], "")
    counted = named(base.delta_schema["fields"], stats["nullCount"], "")
    assert bounded == [name for name in counted if name != "l"]
    assert bounded == named(base.delta_schema["fields"], stats["maxValues"], "")
    return counted


def cases(mode: str) -> Iterator[tuple[str, str, str, list[str]]]:
    quoted = {"a.b", "c,d", "e`f", "l"} if mode == "none" else set()
    yield from (
        (mode, "delta.dataSkippingStatsColumns", text, columns)
        for text, columns in CHOSEN.items()
        if not quoted & set(columns)
    )
    leaves = [leaf for leaf in LEAVES if leaf not in quoted]
    for n in (-1, 0, 1, 3, 5, 7, 9, 32):
        yield mode, "delta.dataSkippingNumIndexedCols", str(n), leaves[:n] if n >= 0 else leaves


@pytest.mark.parametrize(
    ("mode", "property", "value", "expected"),
    [case for mode in ("none", "name", "id") for case in cases(mode)],
)
def test_the_columns_of_the_properties_have_statistics_whatever_their_names_in_files(
    mode: str, property: str, value: str, expected: list[str], tmp_path: Path
) -> None:
    names = PLAIN if mode == "none" else tuple(COLUMNS)
    rows = pa.table({name: COLUMNS[name] for name in names})
    properties = {property: value, "delta.columnMapping.mode": mode}
    if property.endswith("StatsColumns"):
        properties["delta.dataSkippingNumIndexedCols"] = "1"  # the names precede the number
    delta_table(tmp_path, rows, partition=["p"], properties=properties)
    assert columns_with_statistics(tmp_path) == expected
    delta.update(tmp_path, "id = 1", {"last": 10})
    assert columns_with_statistics(tmp_path) == expected
    assert delta.scan(tmp_path, "id = 1").count() == 1


def test_columns_that_files_have_besides_have_no_statistics(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "last": [3, 4]})
    delta_table(tmp_path, rows, properties={"delta.enableRowTracking": "true"})
    delta.update(tmp_path, "id = 1", {"last": 5})
    assert all(list(found["minValues"]) == ["id", "last"] for found in statistics(tmp_path))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("nothing", errors.NotFoundError, "no column nothing; .*id"),
        ("s.nothing", errors.NotFoundError, "no column s.nothing"),
        ("id,p", errors.InvalidInputError, "expected no partition column, .* found p"),
        ("id,,last", errors.InvalidInputError, "expected names of columns divided by commas"),
        ("id,", errors.InvalidInputError, "expected names"),
        ("id last", errors.InvalidInputError, "expected names"),
        ("`id", errors.InvalidInputError, "expected names"),
        ("s.", errors.InvalidInputError, "expected names"),
    ],
)
def test_wrong_columns_are_refused_where_the_table_is_made(
    text: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", NESTED), ("p", pa.string()), ("last", pa.int64())])
    properties = {"delta.dataSkippingStatsColumns": text}
    with pytest.raises(error, match=f"dataSkippingStatsColumns: {message}"):
        delta.create_table(tmp_path, schema, partition_columns=["p"], properties=properties)
    assert not any(tmp_path.iterdir())


def test_columns_that_a_table_no_longer_has_are_ignored_and_other_text_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "last": [2]})
    name = "delta.dataSkippingStatsColumns"
    delta.create_table(tmp_path, rows.schema, properties={name: "last"})
    configure(tmp_path, dataSkippingStatsColumns="gone,last")
    delta.append(tmp_path, rows)
    assert columns_with_statistics(tmp_path) == ["last"]
    configure(tmp_path, dataSkippingStatsColumns="`last")
    with pytest.raises(errors.CorruptDataError, match=f"property {name}.* expected names of columns"):
        delta.append(tmp_path, rows)
