"""Rows written by ``scan --to`` and read by ``upsert``: every value is the same, or the format is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from puffin_fast import iceberg
from puffin_fast.cli import _files
from puffin_fast.errors import InvalidInputError
from tests.cli.conftest import Shell
from tests.cli.round_trips import NESTED, VALUES
from tests.kit.rows import by_us, in_order

DEEP: dict[str, tuple[IcebergType, list[Any]]] = {
    "list of binary": (ListType(20, BinaryType(), element_required=False), [[b"\x00\xff", b"ab", None], []]),
    "list of floats": (
        ListType(20, DoubleType(), element_required=False),
        [[float("nan"), float("-inf"), 1.0]],
    ),
    "map of fixed": (MapType(21, FixedType(2), 22, DateType(), value_required=False), [[(b"\x00\xff", 1)]]),
    "struct of decimals": (
        StructType(NestedField(23, "a", DecimalType(9, 2), required=False)),
        [{"a": Decimal("0.10")}],
    ),
}


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_struct(kind):
        fields = [
            column(field.type, [None if v is None else v[field.name] for v in values]) for field in kind
        ]
        missing = pa.array([value is None for value in values])
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=missing)
    return pa.array(values, kind)


def made(shell: Shell, values: dict[str, tuple[IcebergType, list[Any]]]) -> Table:
    """The table ``ns.k``: a key, and for each type its values and a null."""
    fields = [
        NestedField(at, name, kind, required=False) for at, (name, (kind, _)) in enumerate(values.items(), 2)
    ]
    table = iceberg.create_table(
        shell.table.catalog, "ns.k", Schema(NestedField(1, "id", LongType(), required=False), *fields)
    )
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    n_rows = max(len(some) for _, some in values.values()) + 1
    columns = [pa.array(range(n_rows), pa.int64())]
    for name, (_, some) in values.items():
        columns.append(column(schema.field(name).type, some + [None] * (n_rows - len(some))))
    iceberg.append(table, pa.Table.from_arrays(columns, schema=schema))
    return table


@pytest.mark.parametrize("kind", VALUES)
def test_each_value_of_each_type_comes_back(shell: Shell, tmp_path: Path, kind: str) -> None:
    table = made(shell, {kind: VALUES[kind]})
    held = iceberg.scan(table).to_arrow().to_pydict()
    for suffix in (".csv", ".jsonl", ".parquet", ".arrow", ".feather"):
        path = tmp_path / f"rows{suffix}"
        shell.says("scan", "ns.k", "--to", path)
        with _files.rows(path, table.schema()) as rows:
            assert rows.read_all().to_pydict().__repr__() == held.__repr__()
        done = shell.one("upsert", "ns.k", path, "--join-col", "id")
        counts = [done[name] for name in ("rows_updated", "rows_inserted", "rows_unchanged")]
        assert counts == [0, 0, len(VALUES[kind][1]) + 1], suffix


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl"])
def test_nested_values_come_back(shell: Shell, tmp_path: Path, suffix: str) -> None:
    table, path = made(shell, NESTED), tmp_path / f"rows{suffix}"
    shell.says("scan", "ns.k", "--to", path)
    with _files.rows(path, table.schema()) as rows:
        assert rows.read_all().to_pylist() == iceberg.scan(table).to_arrow().to_pylist()


@pytest.mark.parametrize("kind", NESTED)
def test_csv_is_refused_for_nested_columns(shell: Shell, tmp_path: Path, kind: str) -> None:
    made(shell, {kind: NESTED[kind]})
    said = shell.refused("scan", "ns.k", "--to", tmp_path / "rows.csv")
    assert f"column {kind}" in said
    assert "cannot be written as CSV" in said
    assert not list(tmp_path.glob("*rows*"))


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")], ids=str)
@pytest.mark.parametrize("days", [3_000_000, -1_000_000])
def test_csv_is_refused_for_years_that_it_cannot_hold(tmp_path: Path, kind: pa.DataType, days: int) -> None:
    values = pa.array([days]).cast(pa.int32()).cast(pa.date32()).cast(kind) if kind == pa.date32() else None
    if values is None:
        values = pa.array([days * 86_400_000_000], pa.int64()).cast(kind)
    path = tmp_path / "rows.csv"
    path.write_text("before")
    with pytest.raises(InvalidInputError, match=r"rows.csv: CSV has no form for .* in column x: years"):
        _files.write(path, pa.table({"x": values}).to_reader())
    assert path.read_text() == "before"
    assert [found.name for found in tmp_path.iterdir()] == ["rows.csv"]


def test_a_column_of_one_csv_field_keeps_its_nulls(shell: Shell, tmp_path: Path) -> None:
    table, path = made(shell, {"string": VALUES["string"]}), tmp_path / "rows.csv"
    shell.says("scan", "ns.k", "--selected-fields", "string", "--to", path)
    with _files.rows(path, table.schema()) as rows:
        assert rows.read_all()["string"].to_pylist() == [*VALUES["string"][1], None]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("uuid", "x", "expected a UUID, found a text of 1 characters"),
        ("binary", "0g", "expected hexadecimal digits, found a text of 2 characters"),
        ("fixed", "00", "column fixed"),
        ("int", "NA", "rows.csv"),
        ("decimal", "12345678.5", "column decimal"),
        ("float", "1e39", "column float: expected a number in the range of float"),
    ],
)
def test_text_that_is_no_value_of_its_column_is_refused(
    shell: Shell, tmp_path: Path, kind: str, text: str, expected: str
) -> None:
    made(shell, {kind: VALUES[kind]})
    path = tmp_path / "rows.csv"
    path.write_text(f"id,{kind}\n1,{text}\n")
    assert expected in shell.refused("upsert", "ns.k", path, "--join-col", "id")


@pytest.mark.parametrize(
    "kind", ["float", "double", "time", "timestamp_ns", "binary", "uuid", "decimal", *DEEP]
)
def test_values_are_set_as_scan_prints_them(shell: Shell, kind: str) -> None:
    table = made(shell, {kind: (VALUES | DEEP)[kind]})
    before = str(by_us(table))  # NaN is not NaN
    lines = [json.loads(line) for line in shell.says("scan", "ns.k", "--to", "-").splitlines()]
    shown = in_order(shell.ask("scan", "ns.k"))
    iceberg.update(table, "true", {kind: None})
    for row in lines:
        value = row[kind] if isinstance(row[kind], str) else json.dumps(row[kind])
        arguments = ("--row-filter", f"id = {row['id']}", "--set", f"{kind}={value}")
        shell.says("update", "ns.k", *arguments)
    assert in_order(shell.ask("scan", "ns.k")) == shown
    table.refresh()
    assert str(by_us(table)) == before


@pytest.mark.parametrize("text", ['["0g"]', '["00", 1]', '{"a": 1}', "00", '[["00"]]', "[" * 100_000])
def test_a_nested_value_of_another_type_is_refused(shell: Shell, text: str) -> None:
    made(shell, {"c": DEEP["list of binary"]})
    said = shell.refused("update", "ns.k", "--row-filter", "true", "--set", f"c={text}")
    assert "expected null or a value of type list<binary>" in said
