"""The types of the columns that a table gets from frames and files: every engine reads them, or a warning names it."""

from __future__ import annotations

import datetime as dt
import warnings
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, TimestampNanoType

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
