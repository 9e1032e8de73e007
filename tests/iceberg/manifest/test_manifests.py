"""Manifests and manifest lists: all fields round-trip, PyIceberg reads them, and hostile bytes are refused."""

from __future__ import annotations

import contextlib
import json
from dataclasses import fields, replace
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list as pyiceberg_manifest_list
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from puffin_fast.avro.file import plain_schema, to_avro_schema
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.manifest import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    POSITION_DELETES,
    UNASSIGNED,
    ManifestEntry,
    ManifestFile,
    partition_type,
    read_columns,
    read_manifest,
    read_manifest_list,
    read_manifests,
    write_manifest,
    write_manifest_list,
)
from puffin_fast.iceberg.manifest.copies import EntryCopies
from puffin_fast.iceberg.manifest.entries import ENTRY_NAMES, entry_schema
from tests.kit.avro_files import rewrite_avro
from tests.kit.tables import path_of

IO = PyArrowFileIO()
SNAPSHOT = 77

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "s", StringType()),
    NestedField(3, "d", DateType()),
    NestedField(4, "ts", TimestamptzType()),
    NestedField(5, "dec", DecimalType(20, 3)),
    NestedField(6, "u", UUIDType()),
    NestedField(7, "u2", UUIDType()),
    NestedField(8, "f", FixedType(5)),
    NestedField(9, "b", BinaryType()),
    NestedField(10, "x", DoubleType()),
    NestedField(11, "flag", BooleanType()),
    NestedField(12, "t", TimeType()),
    NestedField(13, "y", FloatType()),
)
PARTITIONS: list[tuple[int, Any, str, Any]] = [
    (1, BucketTransform(4), "id bucket", 3),
    (2, TruncateTransform(3), "s.t", "äbc"),
    (3, DayTransform(), "day", 19_000),
    (4, HourTransform(), "hour", 400_000),
    (5, IdentityTransform(), "dec", Decimal("-12345678901234567.891")),
    (6, IdentityTransform(), "u", b"0123456789abcdef"),
    (7, IdentityTransform(), "u2", None),
    (8, IdentityTransform(), "f", b"12345"),
    (9, IdentityTransform(), "1b", b"\x00\x01"),
    (10, IdentityTransform(), "x", -1.5),
    (11, IdentityTransform(), "flag", True),
    (12, IdentityTransform(), "t", 5_000_000),
    (13, IdentityTransform(), "y", 0.25),
    (4, MonthTransform(), "month", 600),
    (4, IdentityTransform(), "ts", -5),
    (3, YearTransform(), "year", 52),
    (1, VoidTransform(), "void", None),
]
SPEC = PartitionSpec(
    *[PartitionField(source, 1000 + at, t, name) for at, (source, t, name, _) in enumerate(PARTITIONS)],
    spec_id=0,
)
VALUES = tuple(value for *_, value in PARTITIONS)


def metadata(
    version: int, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC, **properties: str
) -> TableMetadata:
    fields = new_table_metadata(
        SCHEMA, spec, UNSORTED_SORT_ORDER, "file:///t", {"format-version": "2", **properties}
    )
    return fields.model_copy(update={"format_version": version})


def entry(number: int = 0, **fields: Any) -> ManifestEntry:
    values: dict[str, Any] = {
        "status": ADDED,
        "snapshot_id": None,
        "sequence_number": None,
        "file_sequence_number": None,
        "content": DATA,
        "file_path": f"file:///t/{number}.parquet",
        "file_format": "PARQUET",
        "spec_id": 0,
        "partition": (),
        "record_count": 100 + number,
        "file_size_in_bytes": 1000,
    }
    return ManifestEntry(**(values | fields))


def full(number: int, **fields: Any) -> ManifestEntry:
    """An entry in which no field of the data file is null."""
    known: dict[str, Any] = {
        "column_sizes": {1: 5, 2: 6},
        "value_counts": {1: 100},
        "null_value_counts": {1: 0, 2: 7},
        "nan_value_counts": {},
        "lower_bounds": {1: b"\x00" * 8, 2: b""},
        "upper_bounds": {1: b"\xff" * 8},
        "key_metadata": b"key",
        "split_offsets": [4, 99],
        "sort_order_id": 3,
    }
    return entry(number, **(known | fields))


def write(path: Path, version: int, entries: list[ManifestEntry], **named: Any) -> ManifestFile:
    spec = named.pop("spec", UNPARTITIONED_PARTITION_SPEC)
    return write_manifest(
        IO,
        f"file://{path}",
        metadata=named.pop("metadata", metadata(version, spec)),
        spec=spec,
        content=named.pop("content", DATA),
        snapshot_id=SNAPSHOT,
        entries=entries,
        format_version=version,
    )


def listed(
    path: Path, version: int, manifests: list[ManifestFile], **named: Any
) -> tuple[int | None, list[ManifestFile]]:
    values: dict[str, Any] = {
        "snapshot_id": SNAPSHOT,
        "parent_snapshot_id": 3,
        "sequence_number": 5 if version > 1 else 0,
        "first_row_id": 1000,
        "format_version": version,
    }
    next_row_id = write_manifest_list(IO, f"file://{path}", manifests=manifests, **(values | named))
    return next_row_id, read_manifest_list(IO, f"file://{path}")


KNOWN = {"snapshot_id": 9, "sequence_number": 2, "file_sequence_number": 1}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_fields_and_partition_types_round_trip(tmp_path: Path, version: int) -> None:
    entries = [full(n, partition=VALUES if n % 2 else (None,) * len(VALUES)) for n in range(5)]
    if version > 1:
        entries += [full(n, partition=VALUES, status=n - 5, **KNOWN) for n in (5 + EXISTING, 5 + DELETED)]
    if version == 3:
        entries.append(full(8, partition=VALUES, first_row_id=12))
    manifest = write(tmp_path / "m.avro", version, entries, spec=SPEC)
    manifest.sequence_number = number = 5 if version > 1 else 0
    read = read_manifest(IO, manifest, {0: SPEC}, live_only=False)
    assigned = {"snapshot_id": SNAPSHOT, "sequence_number": number, "file_sequence_number": number}
    assert read == [
        replace(entry, first_row_id=None, **(assigned if entry.snapshot_id is None else {}))  # no row id yet
        for entry in entries
    ]
    assert read_manifest(IO, manifest, {0: SPEC}) == [e for e in read if e.status != DELETED]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_the_written_manifests(tmp_path: Path, version: int) -> None:
    entries = [full(n, partition=VALUES) for n in range(3)]
    manifest = write(tmp_path / "m.avro", version, entries, spec=SPEC)
    listed(tmp_path / "l.avro", version, [manifest])
    (theirs,) = pyiceberg_manifest_list(IO.new_input(f"file://{tmp_path}/l.avro"))
    assert (theirs.added_files_count, theirs.added_rows_count) == (3, 303)
    assert theirs.sequence_number == theirs.min_sequence_number == (5 if version > 1 else 0)
    read = theirs.fetch_manifest_entry(IO)
    for was, now in zip(entries, read, strict=True):
        values = [value.bytes if isinstance(value, UUID) else value for value in now.data_file.partition]
        assert tuple(values) == VALUES
        for name in ("column_sizes", "null_value_counts", "lower_bounds", "upper_bounds", "split_offsets"):
            assert getattr(now.data_file, name) == getattr(was, name)
        assert now.data_file.sort_order_id == was.sort_order_id


def test_the_header_has_names_as_they_are_as_java_writes_them(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(SPEC.fields[0].source_id, 1000, IdentityTransform(), "𠮷"), spec_id=0)
    write(tmp_path / "m.avro", 3, [full(0, partition=VALUES[:1])], spec=spec)
    with (tmp_path / "m.avro").open("rb") as stream:
        assert '"name": "𠮷"' in fastavro.reader(stream).metadata["partition-spec"]


def test_the_schema_follows_the_specification(tmp_path: Path) -> None:
    write(tmp_path / "m.avro", 3, [full(0, partition=VALUES)], spec=SPEC)
    with (tmp_path / "m.avro").open("rb") as stream:
        reader = fastavro.reader(stream)
        header, schema = reader.metadata, json.loads(reader.metadata["avro.schema"])
    assert header["format-version"] == "3"
    assert header["content"] == "data"
    assert header["partition-spec-id"] == "0"
    assert [f["field-id"] for f in json.loads(header["partition-spec"])] == [f.field_id for f in SPEC.fields]
    assert Schema.model_validate_json(header["schema"]) == SCHEMA
    fields = {f["field-id"]: f for f in schema["fields"]}
    assert set(fields) == {0, 1, 2, 3, 4}
    file = {f["field-id"]: f for f in fields[2]["type"]["fields"]}
    assert set(file) == {
        *range(100, 105),
        *range(108, 111),
        125,
        128,
        131,
        132,
        134,
        135,
        137,
        140,
        *range(142, 146),
    }
    assert file[135]["type"][1] == {"type": "array", "element-id": 136, "items": "int"}
    assert file[109]["type"][1]["logicalType"] == "map"
    partition = {f["field-id"]: f["type"] for f in file[102]["type"]["fields"]}
    assert all(kind[0] == "null" for kind in partition.values() if kind != "null")
    logical = {
        field.name: partition[field.field_id][1].get("logicalType")
        for field in SPEC.fields
        if isinstance(partition[field.field_id][1], dict)
    }
    plain = {"day": "date", "dec": "decimal", "u": "uuid", "u2": "uuid", "f": None}
    assert logical == plain | {"t": "time-micros", "ts": "timestamp-micros"}


VECTOR = {
    "content": POSITION_DELETES,
    "file_format": "PUFFIN",
    "referenced_data_file": "file:///t/0.parquet",
    "content_offset": 4,
    "content_size_in_bytes": 44,
}


def test_vectors_have_their_offset_and_size_and_no_row_id(tmp_path: Path) -> None:
    manifest = write(tmp_path / "m.avro", 3, [entry(1, **VECTOR, first_row_id=9)], content=DELETES)
    manifest.sequence_number = 2
    manifest.first_row_id = 500  # DuckDB writes it in delete manifests, where it has no meaning
    (read,) = read_manifest(IO, manifest)
    assert read.is_vector
    assert {name: getattr(read, name) for name in VECTOR} == VECTOR
    assert read.first_row_id is None


def test_live_files_inherit_row_ids_in_order_and_deleted_files_none(tmp_path: Path) -> None:
    entries = [
        entry(0),
        entry(1, status=EXISTING, **KNOWN),
        entry(2, status=DELETED, **KNOWN),
        entry(3, status=EXISTING, first_row_id=7, **KNOWN),
        entry(4),
    ]
    manifest = write(tmp_path / "m.avro", 3, entries)
    next_row_id, (read,) = listed(tmp_path / "l.avro", 3, [manifest])
    assert read.first_row_id == 1000
    assert next_row_id == 1000 + 100 + 101 + 103 + 104
    assert [e.first_row_id for e in read_manifest(IO, read)] == [1000, 1100, 7, 1201]


def test_a_manifest_list_assigns_missing_numbers_and_preserves_the_others(tmp_path: Path) -> None:
    old = write(tmp_path / "old.avro", 3, [entry(0)])
    _, (old,) = listed(tmp_path / "l0.avro", 3, [old], sequence_number=4, first_row_id=0)
    new = write(tmp_path / "new.avro", 3, [entry(1)])
    deletes = write(tmp_path / "d.avro", 3, [entry(2, content=POSITION_DELETES)], content=DELETES)
    assert new.sequence_number == UNASSIGNED
    next_row_id, read = listed(
        tmp_path / "l1.avro", 3, [new, old, deletes], sequence_number=6, first_row_id=100
    )
    assert [m.sequence_number for m in read] == [6, 4, 6]
    assert [m.first_row_id for m in read] == [100, 0, None]
    assert next_row_id == 201
    assert read[1] == old


def test_manifests_are_read_in_the_given_order(tmp_path: Path) -> None:
    manifests = [write(tmp_path / f"{n}.avro", 2, [entry(n)]) for n in range(20)]
    read = list(read_manifests(IO, manifests))
    assert [m.path for m, _ in read] == [m.path for m in manifests]
    assert [e.file_path for _, (e,) in read] == [f"file:///t/{n}.parquet" for n in range(20)]


def test_partition_values_follow_the_spec_by_field_id(tmp_path: Path) -> None:
    two = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "s"), PartitionField(1, 1001, IdentityTransform(), "id")
    )
    manifest = write(tmp_path / "m.avro", 2, [entry(partition=("a", 1))], spec=two)
    turned = PartitionSpec(*reversed(two.fields))
    assert read_manifest(IO, manifest, {0: turned})[0].partition == (1, "a")
    assert read_manifest(IO, manifest)[0].partition == ("a", 1)


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ([], {}),
        ([entry(content=POSITION_DELETES)], {}),
        ([entry()], {"content": DELETES}),
        ([entry(spec_id=4)], {}),
        ([entry(status=3)], {}),
        ([entry(partition=(1,))], {}),
        ([entry(status=EXISTING)], {}),
        ([entry(snapshot_id=5)], {}),
    ],
)
def test_invalid_entries_are_refused(tmp_path: Path, entries: Any, named: Any) -> None:
    with pytest.raises(InvalidInputError):
        write(tmp_path / "m.avro", 2, entries, **named)
    assert not list(tmp_path.iterdir())


def test_features_that_a_format_version_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        write(tmp_path / "m.avro", 4, [entry()], metadata=metadata(2))
    with pytest.raises(InvalidInputError):
        write(tmp_path / "m.avro", 1, [entry(content=POSITION_DELETES)], content=DELETES)
    with pytest.raises(InvalidInputError, match="next-row-id"):
        listed(tmp_path / "l.avro", 3, [], first_row_id=None)
    manifest = write(tmp_path / "m.avro", 2, [entry()])
    with pytest.raises(InvalidInputError, match="sequence number"):
        listed(tmp_path / "l.avro", 2, [manifest], snapshot_id=78)
    with pytest.raises(UnsupportedError, match="compression"):
        write(
            tmp_path / "m.avro", 2, [entry()], metadata=metadata(2, **{"write.avro.compression-codec": "lzo"})
        )


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed"])
def test_codecs_of_the_table_property_are_used(tmp_path: Path, codec: str) -> None:
    held = metadata(2, **{"write.avro.compression-codec": codec})
    manifest = write(tmp_path / "m.avro", 2, [full(n) for n in range(50)], metadata=held)
    assert len(read_manifest(IO, manifest)) == 50


def test_truncated_and_altered_files_are_read_or_raise_an_error_of_the_package(tmp_path: Path) -> None:
    path = tmp_path / "m.avro"
    manifest = write(path, 3, [full(n, partition=VALUES) for n in range(2)], spec=SPEC)
    data = path.read_bytes()
    for length in (*range(0, len(data), 5), len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptDataError, match=r"m\.avro"):
            read_manifest(IO, manifest, {0: SPEC})
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        with contextlib.suppress(CorruptDataError, UnsupportedError):
            read_manifest(IO, manifest, {0: SPEC})
    path.unlink()
    with pytest.raises(NotFoundError):
        read_manifest(IO, manifest)


def test_an_array_of_items_without_bytes_is_refused_quickly(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [{"name": "odd", "type": {"type": "array", "items": "null"}, "field-id": 999}],
    }
    buffer = BytesIO()
    fastavro.writer(buffer, schema, [{"odd": [None] * 1000}])
    (tmp_path / "l.avro").write_bytes(buffer.getvalue())
    with pytest.raises(CorruptDataError, match="take no bytes"):
        read_manifest_list(IO, f"file://{tmp_path}/l.avro")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    manifest = write(tmp_path / "m.avro", 2, [entry()])
    with pytest.raises(CorruptDataError):
        read_manifest_list(IO, manifest.path)
    manifest.content = DELETES
    with pytest.raises(CorruptDataError, match="content"):
        read_manifest(IO, manifest)


def copies_of(manifest: ManifestFile, removed: set[str]) -> EntryCopies:
    files = read_columns(IO, manifest, {0: SPEC, 1: UNPARTITIONED_PARTITION_SPEC}, live_only=False)
    entries = files.entries()
    mask = np.array([entry.file_path in removed for entry in entries])
    return EntryCopies(files, mask, 99, np.array([entry.status == DELETED for entry in entries]))


def copied(path: Path, version: int, copies: list[EntryCopies], **named: Any) -> ManifestFile:
    return write_manifest(
        IO,
        f"file://{path}",
        metadata=metadata(version, SPEC, **{"write.avro.compression-codec": named.pop("codec", "gzip")}),
        spec=SPEC,
        snapshot_id=99,
        entries=named.pop("entries", []),
        copies=copies,
        **named,
    )


@pytest.mark.parametrize("codec", ["gzip", "uncompressed", "zstd"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("content", [DATA, DELETES])
def test_copied_entries_are_those_that_are_decoded_and_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, content: int, codec: str
) -> None:
    values: list[dict[str, Any]] = [
        {},
        {"status": EXISTING, "snapshot_id": 5, "sequence_number": 2, "file_sequence_number": 1},
        {"status": EXISTING, "snapshot_id": -7, "sequence_number": 3},
        {"status": DELETED, "sequence_number": 3},
        {"status": ADDED, "sequence_number": 0, "file_sequence_number": 0, "snapshot_id": 2**62},
    ]
    others = [VALUES, tuple(None for _ in VALUES)]
    if content == DELETES:
        values = [{**some, "content": POSITION_DELETES} for some in values]
    elif version == 3:
        values[1]["first_row_id"], values[3]["first_row_id"] = 2**40, 7
    entries = [
        (full if n % 3 else entry)(n, partition=others[n % 2], **some) for n, some in enumerate(values * 300)
    ]
    if content == DELETES and version == 3:
        entries[0] = entry(0, partition=VALUES, **VECTOR | {"referenced_data_file": "ä" * 70})
    source = write(tmp_path / "source.avro", version, entries, spec=SPEC, content=content)
    _, (source,) = listed(tmp_path / "l.avro", version, [source])
    removed = {entries[at].file_path for at in (0, 4, 600)}
    copies = copies_of(source, removed)
    assert len(copies) == 1200
    new = [entry(5000, content=content and POSITION_DELETES, partition=VALUES)]
    decoded_entries = 0

    def counted(self: EntryCopies) -> list[ManifestEntry]:
        nonlocal decoded_entries
        decoded_entries += 1
        return made(self)

    made = EntryCopies.entries
    monkeypatch.setattr(EntryCopies, "entries", counted)
    ours = copied(tmp_path / "a.avro", version, [copies, copies], codec=codec, content=content, entries=new)
    assert (decoded_entries > 0) == (codec == "zstd")
    with monkeypatch.context() as patch:
        patch.setattr(EntryCopies, "can_copy", lambda *_: False)
        again = copied(
            tmp_path / "b.avro", version, [copies, copies], codec=codec, content=content, entries=new
        )
    expected = {f.name: getattr(again, f.name) for f in fields(again) if f.name not in ("path", "length")}
    assert {name: getattr(ours, name) for name in expected} == expected
    found = []
    for written in (ours, again):
        _, (known,) = listed(tmp_path / "l2.avro", version, [written], snapshot_id=99, sequence_number=8)
        found.append(read_manifest(IO, known, {0: SPEC}, live_only=False))
    assert found[0] == found[1]
    assert len(found[0]) == 2401
    assert {e.file_path for e in found[0] if e.status == DELETED} == removed
    assert {e.snapshot_id for e in found[0] if e.status == DELETED} == {99}
    assert {e.sequence_number for e in found[0]} == {8, 5, 2, 3, 0}
    (theirs,) = pyiceberg_manifest_list(IO.new_input(f"file://{tmp_path}/l2.avro"))
    read = theirs.fetch_manifest_entry(IO, discard_deleted=False)
    assert [e.data_file.file_path for e in read] == [e.file_path for e in found[0]]
    assert [e.sequence_number for e in read] == [e.sequence_number for e in found[0]]


def data_file(schema: Any) -> list[Any]:
    """The fields of the data file in the schema of a manifest."""
    fields: list[Any] = next(field for field in schema["fields"] if field["name"] == "data_file")["type"][
        "fields"
    ]
    return fields


def relisted(folder: Path, manifest: ManifestFile) -> ManifestFile:
    """A manifest that was changed, as a manifest list has it."""
    length = path_of(manifest.path).stat().st_size
    return listed(folder / "l.avro", 3, [replace(manifest, length=length)])[1][0]


def assert_copied(folder: Path, copies: EntryCopies, before: list[ManifestEntry]) -> None:
    """Writes the copies, of which the fourth is removed, and compares the entries."""
    written = copied(folder / "new.avro", 3, [copies], content=DATA)
    _, (written,) = listed(folder / "l2.avro", 3, [written], snapshot_id=99, sequence_number=8)
    expected = [replace(was, status=EXISTING) for was in before]
    expected[3] = replace(before[3], status=DELETED, snapshot_id=99)
    assert read_manifest(IO, written, {0: SPEC}, live_only=False) == expected


def test_entries_that_another_schema_encodes_are_written_again(tmp_path: Path) -> None:
    """Fields in another order, an optional field that is required, another position of null, a field more."""

    def swap(file: list[Any]) -> None:
        file[0], file[1] = file[1], file[0]

    def named(file: list[Any], name: str) -> dict[str, Any]:
        (part,) = (field for field in file if field["name"] == name)
        del part["default"]
        return part

    def required(file: list[Any]) -> None:
        part = named(file, "split_offsets")
        part["type"] = next(kind for kind in part["type"] if kind != "null")

    def null_last(file: list[Any]) -> None:
        part = named(file, "sort_order_id")
        part["type"] = part["type"][::-1]

    def more(file: list[Any]) -> None:
        file.append({"name": "new", "type": ["null", "string"], "default": None, "field-id": 9999})

    entries = [full(n, partition=VALUES) for n in range(40)]
    for change, is_copied in ((swap, False), (required, False), (null_last, False), (more, True)):
        source = write(tmp_path / "source.avro", 3, entries, spec=SPEC)
        rewrite_avro(tmp_path / "source.avro", lambda _, schema, change=change: change(data_file(schema)))  # type: ignore[misc]
        source = relisted(tmp_path, source)
        before = read_manifest(IO, source, {0: SPEC})
        assert len(before) == 40
        copies = copies_of(source, {entries[3].file_path})
        target = plain_schema(
            to_avro_schema(entry_schema(3, partition_type(metadata(3, SPEC), SPEC)), "manifest_entry"),
            ENTRY_NAMES,
        )
        assert copies.can_copy(target) == is_copied, change
        assert_copied(tmp_path, copies, before)


@pytest.mark.parametrize("inside", [False, True])
def test_copied_entries_do_not_have_unknown_fields(tmp_path: Path, inside: bool) -> None:
    entries = [full(n, partition=VALUES) for n in range(6)]
    kinds: list[Any] = ["long", ["null", "string"], {"type": "fixed", "name": "new_type", "size": 3}]
    values = [-7, "text", b"abc"]
    n_places, place = 1, 0
    while place < n_places:

        def insert(records: list[Any], schema: Any, place: int = place) -> None:
            nonlocal n_places
            fields = data_file(schema) if inside else schema["fields"]
            n_places = len(fields) + 1
            fields.insert(place, {"name": "new", "type": kinds[place % 3], "field-id": 9999})
            for record in records:
                (record["data_file"] if inside else record)["new"] = values[place % 3]

        source = write(tmp_path / "source.avro", 3, entries, spec=SPEC)
        rewrite_avro(tmp_path / "source.avro", insert)
        source = relisted(tmp_path, source)
        copies = copies_of(source, {entries[3].file_path})
        assert_copied(tmp_path, copies, read_manifest(IO, source, {0: SPEC}))
        place += 1
    assert n_places > 5
