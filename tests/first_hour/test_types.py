"""The types of the columns that a table gets from frames and files: every engine reads them, or a warning names it."""

from __future__ import annotations

import datetime as dt
import warnings
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestampNanoType, TimestamptzType

import puffin_fast as pf
from puffin_fast.cli import main

TIMES = [dt.datetime(2026, 1, 2, 3, 4, 5, 678901)]


def types_of(schema: Schema) -> dict[str, str]:
    return {field.name: str(field.field_type) for field in schema.fields}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_pandas_become_microseconds(catalog: SqlCatalog, unit: str) -> None:
    zone = "Europe/Berlin"
    frame = pd.DataFrame({"t": pd.Series(TIMES).astype(f"datetime64[{unit}]")})
    frame["z"] = frame["t"].dt.tz_localize(zone)
    frame["l"] = [[moment] for moment in frame["t"]]
    table = pf.iceberg.create_table(catalog, "shop.t", frame)
    assert types_of(table.schema()) == {"t": "timestamp", "z": "timestamptz", "l": "list<timestamp>"}
    pf.iceberg.append(table, frame)
    found = pf.iceberg.scan(table).to_pandas()
    assert found["t"][0] == frame["t"][0]
    assert found["z"][0] == frame["z"][0]


def test_types_of_polars(catalog: SqlCatalog) -> None:
    frame = pl.DataFrame(
        {
            "t": pl.Series(TIMES, dtype=pl.Datetime("ns")),
            "d": [dt.date(2026, 1, 2)],
            "c": pl.Series(["a"], dtype=pl.Categorical),
            "n": [pl.Series([1], dtype=pl.UInt32)],
        }
    )
    table = pf.iceberg.create_table(catalog, "shop.t", frame)
    assert types_of(table.schema()) == {"t": "timestamp", "d": "date", "c": "string", "n": "list<long>"}
    pf.iceberg.append(table, frame)
    assert pf.iceberg.scan(table).to_arrow()["t"].to_pylist() == TIMES


def test_nanoseconds_on_request_and_a_warning_that_names_engines(catalog: SqlCatalog) -> None:
    schema = pa.schema([("t", pa.timestamp("ns"))])
    with pytest.warns(
        pf.EngineSupportWarning, match=r"shop\.a: Spark cannot read .* timestamp_ns \(t\)"
    ) as caught:
        table = pf.iceberg.create_table(catalog, "shop.a", schema, types={"t": "timestamp_ns"})
    assert caught[0].filename == __file__
    assert types_of(table.schema()) == {"t": "timestamp_ns"}
    with pytest.warns(pf.EngineSupportWarning, match="timestamp_ns"):
        pf.iceberg.create_table(
            catalog, "shop.b", Schema(NestedField(1, "t", TimestampNanoType(), required=False))
        )


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("time", "Spark"),
        ("variant", "Polars and PyIceberg"),
        ("unknown", "DuckDB"),
        ("geometry", "Polars and PyIceberg"),
        ("geography", "DuckDB and Polars and PyIceberg"),
        ("timestamptz_ns", "DuckDB and Spark"),
    ],
)
def test_every_type_that_some_engine_cannot_read_is_named(catalog: SqlCatalog, kind: str, said: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("x", pa.string())])
    with pytest.warns(pf.EngineSupportWarning, match=rf"{said} cannot read .* type {kind} \(x\)"):
        pf.iceberg.create_table(catalog, "shop.t", schema, types={"x": kind})


def test_ordinary_types_need_no_warning(catalog: SqlCatalog) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pf.iceberg.create_table(catalog, "shop.t", pa.schema([("id", pa.int64())]), types={"id": "int"})


def test_wrong_types_are_named(catalog: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64())])
    with pytest.raises(
        pf.InvalidInputError, match=r"types: id: expected a type of Iceberg .*found 'datetime'"
    ):
        pf.iceberg.create_table(catalog, "shop.t", schema, types={"id": "datetime"})
    with pytest.raises(pf.NotFoundError, match="types: no column ID; did you mean id; the schema has id"):
        pf.iceberg.create_table(catalog, "shop.t", schema, types={"ID": "int"})


def test_lost_nanoseconds_say_how_to_keep_them(catalog: SqlCatalog) -> None:
    rows = pa.table({"t": pa.array([1], pa.timestamp("ns"))})
    table = pf.iceberg.create_table(catalog, "shop.t", rows)
    with pytest.raises(pf.InvalidInputError, match=r"column t: .*as timestamp_ns .*create_table"):
        pf.iceberg.append(table, rows)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_files_with_fractions_of_a_second(tmp_path: Path, form: str) -> None:
    texts = {
        "csv": "id,t,z,d\n1,2026-01-02 03:04:05.678901,2026-01-02T03:04:05.5Z,2026-01-02\n",
        "jsonl": '{"id": 1, "t": "2026-01-02 03:04:05.678901", "z": "2026-01-02T03:04:05.5Z", "d": "2026-01-02"}\n',
    }
    path = tmp_path / f"x.{form}"
    path.write_text(texts[form])
    options = ["--uri", f"sqlite:///{tmp_path}/c.db", "--warehouse", f"{tmp_path}/wh"]

    def run(*arguments: object) -> str:
        done = CliRunner().invoke(main, [*map(str, arguments), *options], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stderr

    assert not run("create", "shop.t", path, "--create-namespace")
    run("append", "shop.t", path)
    said = run("create", "shop.ns", path, "--type", "t=timestamp_ns", "--type", "id=int")
    assert "warning: table shop.ns: Spark cannot read" in said
    run("append", "shop.ns", path)
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/wh")
    table = catalog.load_table("shop.t")
    assert types_of(table.schema()) == {"id": "long", "t": "timestamp", "z": "timestamptz", "d": "date"}
    assert pf.iceberg.scan(table).to_arrow()["t"].to_pylist() == TIMES
    assert types_of(catalog.load_table("shop.ns").schema())["t"] == "timestamp_ns"
    assert (
        pf.iceberg.scan(catalog.load_table("shop.ns")).to_arrow()["t"].cast(pa.timestamp("us")).to_pylist()
        == TIMES
    )
    catalog.engine.dispose()


def schemas() -> dict[str, Any]:
    """Schemas of libraries, and types by column, each with a column of long, of string and of timestamptz."""
    arrow = pa.schema([("n", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us", "UTC"))])
    frame = pl.DataFrame(arrow.empty_table())
    pandas_frame = arrow.empty_table().to_pandas(types_mapper={pa.string(): pd.StringDtype()}.get)
    relation = duckdb.connect().from_arrow(arrow.empty_table())
    return {
        "Arrow": arrow,
        "fields of Arrow": list(arrow),
        "types of Arrow": dict(zip(arrow.names, arrow.types, strict=True)),
        "Polars": frame.schema,
        "Polars, lazy": frame.lazy().collect_schema(),
        "dict of Polars": dict(frame.schema),
        "classes of Polars": {"n": pl.Int64, "s": pl.String, "t": pl.Datetime("ns", "UTC")},
        "pandas": pandas_frame.dtypes,
        "dict of pandas": dict(pandas_frame.dtypes),
        "NumPy": {"n": np.dtype("int64"), "s": np.dtype("U"), "t": pd.DatetimeTZDtype("us", "UTC")},
        "classes of NumPy": {"n": np.int64, "s": np.str_, "t": "timestamptz"},
        "DuckDB": dict(zip(relation.columns, relation.types, strict=True)),
        "relation of DuckDB": relation,
        "PyIceberg": Schema(
            NestedField(1, "n", LongType()), NestedField(2, "s", StringType()), NestedField(3, "t", TimestamptzType())
        ),
        "types of PyIceberg": {"n": LongType(), "s": StringType(), "t": TimestamptzType()},
        "texts": {"n": "long", "s": "string", "t": "timestamptz"},
        "pairs": [("n", "long"), ("s", pa.string()), ("t", pl.Datetime("us", "UTC"))],
    }  # fmt: skip


def test_schemas_of_every_library_create_one_table(catalog: SqlCatalog, tmp_path: Path) -> None:
    expected = {"n": "long", "s": "string", "t": "timestamptz"}
    for number, (name, schema) in enumerate(schemas().items()):
        table = pf.iceberg.create_table(catalog, f"shop.s{number}", schema)
        assert types_of(table.schema()) == expected, name
        snapshot = pf.delta.create_table(tmp_path / f"s{number}", schema)
        assert {field["name"]: field["type"] for field in snapshot.delta_schema["fields"]} == {
            "n": "long",
            "s": "string",
            "t": "timestamp",
        }, name


def test_schemas_that_are_none_say_what_to_type(catalog: SqlCatalog) -> None:
    for wrong, message in (
        (pl.Schema({}), "expected at least one column, found none"),
        ({}, "expected at least one column, found none"),
        ({"a": "bigint", "b": "varchar"}, "a: .*write 'long'\nschema: b: .*write 'string'"),
        ({"a": int, "b": str}, "a: .*write 'long'\nschema: b: .*write 'string'"),
        ({"a": pl.Object}, "a: expected a type of Iceberg"),
        (pd.DataFrame({"a": ["x"]}, dtype=object).dtypes, "a: expected a type.*write 'string'"),
        ({"a": pd.CategoricalDtype()}, "a: expected a type.*write 'string'"),
        ([("a", "long"), ("a", "long")], "expected each column once, found a twice"),
        (pa.int64(), "expected a schema of columns, found a DataType of pyarrow"),
        ("a bigint", "found str; pass types by column"),
        (None, "found NoneType; pass types by column"),
        ([pa.int64()], "pass types by column"),
    ):
        with pytest.raises(pf.InvalidInputError, match=message):
            pf.iceberg.create_table(catalog, "shop.none", wrong)
