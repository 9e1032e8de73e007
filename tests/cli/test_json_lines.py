"""Rows from JSON Lines and from standard input: every value is the one that was printed, or it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from puffin_fast import iceberg
from puffin_fast.cli import _files, _json_lines
from puffin_fast.errors import InvalidInputError, LimitExceededError
from tests.cli.conftest import Shell
from tests.cli.round_trips import NESTED, VALUES
from tests.kit.cases import each
from tests.kit.rows import by_pyiceberg

Run = Callable[..., Result]
Options = tuple[str, ...]

NUMBERS = {"id": pa.int64(), "share": pa.float64(), "done": pa.bool_(), "word": pa.string()}


def read(text: str | bytes, types: dict[str, pa.DataType] | None = None) -> pa.Table:
    data = text.encode() if isinstance(text, str) else text
    types = NUMBERS if types is None else types
    return _json_lines.read_json_lines(BytesIO(data), "rows.jsonl", types).read_all()


@pytest.mark.parametrize("name", [*VALUES, *NESTED])
def test_json_lines_that_scan_prints_are_read_again(run: Run, tmp_path: Path, name: str) -> None:
    kind, values = (VALUES | NESTED)[name]
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/tables"
    options = ("--catalog", "c", "--uri", uri, "--warehouse", warehouse)
    catalog = load_catalog("c", uri=uri, warehouse=warehouse)
    catalog.create_namespace("ns")
    schema = Schema(NestedField(1, "c", kind, required=False))
    for table in ("ns.from", "ns.to"):
        iceberg.create_table(catalog, table, schema)
    source = catalog.load_table("ns.from")
    wanted = _files._types(source.schema(), nested=True)["c"]
    storage = wanted.storage_type if isinstance(wanted, pa.ExtensionType) else wanted
    if pa.types.is_struct(storage):
        values = [{"a": value["a"]} for value in values]
    column = pa.array(
        [*values, None], pa.list_(pa.int32()) if pa.types.is_large_list(storage) else _plain(storage)
    )
    if isinstance(wanted, pa.ExtensionType):
        column = pa.ExtensionArray.from_storage(wanted, column)
    iceberg.append(source, pa.table({"c": column}))
    printed = run("scan", "ns.from", "--to", "-", *options).stdout
    path = tmp_path / "rows.jsonl"
    path.write_text(printed)
    assert run("append", "ns.to", path, *options).exit_code == 0
    assert run("scan", "ns.to", "--to", "-", *options).stdout == printed
    found, expected = (catalog.load_table(table).scan().to_arrow()["c"] for table in ("ns.to", "ns.from"))
    assert str(found.to_pylist()) == str(expected.to_pylist())  # NaN is not equal to itself
    catalog.close()


def _plain(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([pa.field(f.name, getattr(f.type, "storage_type", f.type)) for f in kind])


@each(
    "text, message",
    [
        ('{"id": 1}\n{"id": "1"}', "line 2: column id: expected int64, found a text of 1 characters"),
        ('{"id": 1}\n\n{"id": true}', "line 3: column id: expected int64, found true"),
        ('{"id": 1.0}', "line 1: column id: expected int64"),
        ('{"id": 9223372036854775808}', "line 1: column id: expected int64"),
        ('{"done": 0}', "line 1: column done: expected bool, found a number"),
        ('{"done": ""}', "line 1: column done: expected bool, found a text of 0 characters"),
        ('{"word": 7}', "line 1: column word: expected string, found a number"),
        ('{"share": true}', "line 1: column share: expected double, found true or false"),
        ('{"share": "much"}', "line 1: column share: expected double, found a text of 4 characters"),
        ('{"word": "\\ud800"}', "line 1: column word: expected string"),
        ('{"word": "a", "\\ud800": 1}', "expected text, found half of a surrogate pair"),
        ('{"new": {"\\udfff": 1}}', "expected text, found half of a surrogate pair"),
        ('{"new": "\\ud800"}', "expected text, found half of a surrogate pair"),
        (
            '{"share": 1e9999999999999999999}',
            "line 1: expected a JSON object: expected a number in the range of floats",
        ),
        ('{"share": 1e400}', "line 1: expected a JSON object: expected a number in the range"),
        ('{"share": -%s}' % ("9" * 400), "line 1: expected a JSON object: expected a number in the range"),
        ('{"share": "nan"}', "line 1: column share: expected double, found a text of 3 characters"),
        ('{"id": %s}' % ("9" * 4301), "line 1: expected a JSON object: expected a number in the range"),
        ('{"new": %s}' % ("9" * 300), "column new"),
        ('{"id": 1}\nnull', "line 2: expected a JSON object, found null"),
        ('{"id": 1}{"id": 2}', "line 1: expected a JSON object: Extra data"),
        ('{"id": 1}\n{}', "line 2: expected the keys of the first line, found a difference in id"),
        ('{"id": 1}\n{"id": 2, "extra": 3}', "line 2: expected the keys of the first line"),
        ('{"id": 1, "id": 2}', "line 1: expected a JSON object: a key is repeated"),
        ("[1]", "row 1: expected a JSON object, found a number"),
        ("7", "line 1: expected a JSON object, found a number"),
        ('{"id": 1', "line 1: expected a JSON object"),
        (b'{"word": "\xff"}', "line 1: expected a JSON object"),
        ('{"id": 1}\x00', "line 1: expected a JSON object"),
        ("[" * 100_000, "rows.jsonl: expected a JSON array of objects: "),
        ('[{"id": 1}, {"id": 2}', "rows.jsonl: expected a JSON array of objects: "),
        ('[{"id": 1} {"id": 2}]', "rows.jsonl: expected a JSON array of objects: "),
        ('[{"id": 1}] 2', "rows.jsonl: expected a JSON array of objects: "),
        ('{"other": 1}\n{"other": "x"}', "column other"),
    ],
)
def test_a_wrong_value_is_named_by_its_line(text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read(text)
    assert "rows.jsonl: " in str(caught.value)
    assert message in str(caught.value)


def test_a_line_has_a_maximum_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_lines, "LINE_BYTES", 20)
    assert read('{"word": "12345678"}').num_rows == 1
    with pytest.raises(LimitExceededError, match="line 2: expected at most 20 bytes"):
        read('{"word": "1"}\n{"word": "12345678901"}\n')


def test_rows_of_several_batches_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_lines, "BATCH_ROWS", 3)
    rows = [{"id": i if i % 4 else None, "note": i / 2} for i in range(10)]
    found = read("".join(json.dumps(row) + "\r\n" for row in rows))
    assert found.to_pylist() == rows
    assert found.schema.types == [pa.int64(), pa.float64()]
    assert read("").schema.names == list(NUMBERS)


SOME = {
    "small": pa.float32(),
    "time": pa.time64("us"),
    "local": pa.timestamp("us"),
    "map": pa.map_(pa.string(), pa.int64()),
    "struct": pa.struct([("a", pa.int64())]),
    "price": pa.decimal128(5, 2),
}


@each(
    "text",
    [
        '{"small": 1e39}',
        '{"time": 1}',
        '{"time": "10"}',
        '{"local": "2024-01-01T00:00:00+02:00"}',
        '{"local": "2024-01-01T00:00:00.1234567"}',
        '{"map": {"keys": ["a"], "values": []}}',
        '{"map": {"keys": ["a"]}}',
        '{"map": {"keys": [null], "values": [1]}}',
        '{"map": {"a": 1}}',
        '{"map": [["a", 1]]}',
        '{"struct": {"b": 1}}',
        '{"struct": {"a": 1, "a": 2}}',
        '{"price": 1.005}',
        '{"price": 1234.5}',
    ],
)
def test_a_value_that_would_change_is_refused(text: str) -> None:
    """PyArrow's reader alone takes several of them: infinities, and times without their zone."""
    with pytest.raises(InvalidInputError, match=r"rows\.jsonl: line 1: "):
        read(text, SOME)


def test_numbers_keep_their_digits_in_an_array() -> None:
    text = (
        '[\n{"price": 123.45,\n"map": null}, {"price": "0.10", "map": {"keys": ["a"], "values": [null]}}]\n'
    )
    assert read(text, SOME).to_pylist() == [
        {"price": Decimal("123.45"), "map": None},
        {"price": Decimal("0.10"), "map": [("a", None)]},
    ]
    assert read("[ ]", SOME).num_rows == 0


@each(
    "text, kind",
    [
        ("2024-01-02", pa.date32()),
        ("10:11:12.5", pa.time64("us")),
        ("2024-01-02 10:11:12", pa.timestamp("us")),
        ("2024-01-02T10:11:12+02:00", pa.timestamp("us", "UTC")),
        ("10", pa.string()),
        ("2024", pa.string()),
    ],
)
def test_times_of_a_new_column_are_recognised(text: str, kind: pa.DataType) -> None:
    assert read(json.dumps({"new": text})).schema.field("new").type == kind


def test_a_byte_order_mark_is_skipped() -> None:
    assert read('\ufeff{"id": 1}\n').to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow", None])
def test_keys_come_from_standard_input(shell: Shell, form: str | None) -> None:
    keys, sink = pa.table({"id": [1, 5, 4000]}), BytesIO()
    if form == "parquet":
        pq.write_table(keys, sink)
    elif form == "csv":
        csv.write_csv(keys, sink)
    elif form == "arrow":
        with pa.ipc.new_file(sink, keys.schema) as writer:
            writer.write_table(keys)
    else:
        sink.write(b'{"id": 1}\n{"id": 5}\n{"id": 4000}')
    chosen = () if form is None else ("--input-format", form)
    shell.says("delete-keys", "ns.t", "-", "--join-col", "id", *chosen, data=sink.getvalue())
    assert shell.count() == 998


def test_rows_are_appended_and_upserted_from_standard_input(shell: Shell) -> None:
    shell.says("append", "ns.t", "-", data=b'{"id": 5000, "word": "a"}\n')
    rows = b'{"word": null, "id": 5000}\n{"word": "b", "id": 5001}\n'
    shell.says("upsert", "ns.t", "-", "--join-col", "id", "--threads", 1, data=rows)
    found = by_pyiceberg(shell.table, row_filter="id >= 5000")
    assert found == [{"id": 5000, "word": None}, {"id": 5001, "word": "b"}]


def test_an_upsert_without_a_column_of_the_table_changes_nothing(shell: Shell) -> None:
    shell.refused("upsert", "ns.t", "-", "--join-col", "id", data=b'{"id": 1}\n')


def test_errors_name_standard_input(shell: Shell) -> None:
    for data, form in ((b"nothing", "jsonl"), (b"nothing", "parquet"), (b"a,b\n1\n", "csv")):
        said = shell.refused("append", "ns.t", "-", "--input-format", form, data=data)
        assert "standard input: " in said
