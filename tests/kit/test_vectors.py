"""The strict reader refuses one change of any byte or value that a rule names."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from tests.kit.avro_files import read_avro, rewrite_avro
from tests.kit.cases import each
from tests.kit.damage import flipped_bits
from tests.kit.oracle import RefusedError
from tests.kit.tables import iceberg_table, path_of
from tests.kit.vectors import read_vectors

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@pytest.fixture
def table(racing: Catalog) -> Table:
    """Three data files, of which two have vectors in one Puffin file."""
    made = iceberg_table(racing, [{"id": range(first, first + 10)} for first in (0, 10, 20)])
    iceberg.delete(made, "id in (1, 11, 12)")
    assert sorted(read_vectors(made).values()) == [[1], [1, 2]]
    return made


def manifests(table: Table, content: int) -> list[Path]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    records = read_avro(snapshot.manifest_list)[1]
    return [path_of(one["manifest_path"]) for one in records if one["content"] == content]


def puffin_file(table: Table) -> Path:
    (path,) = path_of(table.location()).rglob("*.puffin")
    return path


@contextmanager
def kept(*paths: Path) -> Iterator[None]:
    """Puts back the bytes of files."""
    before = {path: path.read_bytes() for path in paths}
    yield
    for path, data in before.items():
        path.write_bytes(data)


def refused(table: Table, rule: str) -> None:
    with pytest.raises(RefusedError, match=f"^{rule}$"):
        read_vectors(table)


def of_file(**values: Any) -> Callable[[list[Any]], None]:
    return lambda records: records[0]["data_file"].update(values)


def more(name: str) -> Callable[[list[Any]], None]:
    def change(records: list[Any]) -> None:
        records[0]["data_file"][name] += 1

    return change


def twice(records: list[Any]) -> None:
    records.append(records[0])


def old(records: list[Any]) -> None:
    for one in records:
        one.update(status=0, sequence_number=1, file_sequence_number=1)


@each(
    ("rule", "change"),
    [
        ("file_format", of_file(file_format="puffin")),
        ("no referenced_data_file", of_file(referenced_data_file=None)),
        ("the data file is not live", of_file(referenced_data_file="file:///other.parquet")),
        ("two vectors of a data file", twice),
        ("the data file is newer", old),
        ("no offset or length", of_file(content_offset=None)),
        ("no offset or length", of_file(content_size_in_bytes=None)),
        ("length of the entry", of_file(content_size_in_bytes=0)),
        ("length of the entry", of_file(content_size_in_bytes=(256 << 20) + 1)),
        ("no blob at the offset", more("content_offset")),
        ("length of the blob", more("content_size_in_bytes")),
        ("cardinality of the footer", more("record_count")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_changed_entry_is_refused(table: Table, rule: str, change: Callable[[list[Any]], None]) -> None:
    (path,) = manifests(table, 1)
    with kept(path):
        rewrite_avro(path, lambda records, schema: change(records))
        refused(table, rule)


def test_changed_entries_of_data_files_are_refused(table: Table) -> None:
    paths = manifests(table, 0)
    for path in paths:
        rewrite_avro(path, lambda records, schema: of_file(file_format="parquet")(records))
    refused(table, "file_format")
    for path in paths:
        rewrite_avro(path, lambda records, schema: records.clear())
    refused(table, "the data file is not live")


def test_a_vector_of_another_partition_spec_is_refused(table: Table) -> None:
    def change(records: list[Any], schema: Any) -> None:
        for one in records:
            one["partition_spec_id"] += one["content"]

    snapshot = table.current_snapshot()
    assert snapshot is not None
    rewrite_avro(path_of(snapshot.manifest_list), change)
    refused(table, "partition of the data file")


def with_footer(data: bytes, change: Callable[[Any], Any], *, after: bytes = b"", flags: int = 0) -> bytes:
    """The bytes of a Puffin file with another footer."""
    (size,) = struct.unpack("<i", data[-12:-8])
    footer = json.loads(data[-12 - size : -12])
    text = json.dumps(change(footer) or footer).encode() + after
    return data[: -12 - size] + text + struct.pack("<iI", len(text), flags) + data[-4:]


def of_blob(**values: Any) -> Callable[[Any], None]:
    return lambda footer: footer["blobs"][0].update(values)


def of_properties(**values: Any) -> Callable[[Any], None]:
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return lambda footer: footer["blobs"][0]["properties"].update(named)


def same(footer: Any) -> None:
    pass


@each(
    ("rule", "change", "options"),
    [
        ("type", of_blob(type=""), {}),
        ("type", of_blob(type="apache-datasketches-theta-v1"), {}),
        ("snapshot id or sequence number", of_blob(**{"snapshot-id": 0}), {}),
        ("snapshot id or sequence number", of_blob(**{"sequence-number": 1}), {}),
        ("compression", of_blob(**{"compression-codec": "zstd"}), {}),
        ("no blob at the offset", of_blob(offset=5), {}),
        ("length of the blob", of_blob(length=5), {}),
        ("place of a blob", of_blob(offset=3), {}),
        ("place of a blob", of_blob(length=-1), {}),
        ("place of a blob", of_blob(length=1000), {}),
        ("referenced-data-file", of_properties(referenced_data_file="file:///other.parquet"), {}),
        ("referenced-data-file", of_blob(properties={}), {}),
        ("cardinality of the footer", of_properties(cardinality="3"), {}),
        ("cardinality of the footer", of_properties(cardinality="x"), {}),
        ("JSON of the footer", lambda footer: [1], {}),
        ("JSON of the footer", same, {"after": b"{}"}),
        ("flags", same, {"flags": 1}),
        ("flags", same, {"flags": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_changed_footer_is_refused(
    table: Table, rule: str, change: Callable[[Any], Any], options: dict[str, Any]
) -> None:
    path = puffin_file(table)
    with kept(path):
        path.write_bytes(with_footer(path.read_bytes(), change, **options))
        refused(table, rule)


def test_a_flipped_bit_of_a_vector_or_magic_is_refused(table: Table) -> None:
    path = puffin_file(table)
    data = path.read_bytes()
    (size,) = struct.unpack("<i", data[-12:-8])
    footer = len(data) - 16 - size
    for first, stop in ((0, 4), (4, footer + 4), (len(data) - 4, len(data))):
        for changed in flipped_bits(data, first, stop):
            path.write_bytes(changed)
            refused(table, "magic of the (file|footer)|length|magic|CRC")
    path.write_bytes(with_footer(data, same))
    assert read_vectors(table)
