"""Metadata that lost files is refused; metadata with only a wrong count is read, and `verify` reports it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.iceberg.manifest import ManifestFile, read_manifest, read_manifest_list, write_manifest_list
from tests.iceberg.conftest import local
from tests.nanoseconds import nanosecond_types


@pytest.fixture
def table(racing: SqlCatalog) -> Table:
    """Ten data files of ten ids, five of them with a vector."""
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    for first in range(0, 100, 10):
        iceberg.append(table, pa.table({"id": range(first, first + 10)}))
    iceberg.delete(table, "id in (1, 11, 21, 31, 41)")
    assert iceberg.verify(table) == []
    return table


def rows(table: Table) -> int:
    return iceberg.scan(table).to_arrow().num_rows


def list_of(table: Table) -> Path:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return local(snapshot.manifest_list)


def relist(table: Table, change: Callable[[ManifestFile], ManifestFile | None]) -> None:
    """Writes the current manifest list anew."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = read_manifest_list(table.io, snapshot.manifest_list)
    write_manifest_list(
        table.io,
        snapshot.manifest_list,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        manifests=[changed for manifest in found if (changed := change(manifest)) is not None],
        first_row_id=0,
        format_version=3,
    )


def rewrite_metadata(table: Table, change: Callable[[dict[str, Any]], object]) -> None:
    path = local(table.metadata_location)
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))
    table.refresh()


def refused(table: Table, match: str) -> None:
    """No verb reads it, and none writes on top of it."""
    verbs: list[Callable[[], object]] = [
        lambda: iceberg.scan(table).to_arrow(),
        lambda: iceberg.verify(table),
        lambda: iceberg.append(table, pa.table({"id": [1000]})),
        lambda: iceberg.delete(table, "id = 3"),
        lambda: iceberg.orphan_files(table),
    ]
    before = table.metadata_location
    for verb in verbs:
        with pytest.raises(CorruptDataError, match=match):
            verb()
    assert table.refresh().metadata_location == before


@pytest.mark.parametrize("difference", [-7, 46, 100_000])
def test_a_stale_length_of_a_manifest_is_a_finding_and_no_reason_to_refuse(
    table: Table, difference: int
) -> None:
    relist(table, lambda manifest: replace(manifest, length=manifest.length + difference))
    assert rows(table) == 95
    found = iceberg.verify(table)
    assert {finding.kind for finding in found} == {"stale"}
    assert len(found) == 11
    assert "bytes (manifest list), found" in found[0].message
    iceberg.append(table, pa.table({"id": [1000]}))
    assert rows(table) == 96


@pytest.mark.parametrize("name", ["manifest_path", "manifest_length", "partition_spec_id"])
def test_null_in_a_required_field_of_a_manifest_list_is_refused(table: Table, name: str) -> None:
    path = list_of(table)
    with path.open("rb") as file:
        reader: Any = fastavro.reader(file)
        schema, records = reader.writer_schema, [{**record, name: None} for record in reader]
        metadata = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
    (field,) = (field for field in schema["fields"] if field["name"] == name)
    field["type"] = ["null", field["type"]]
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, metadata=metadata)
    refused(table, f"record of a manifest list: expected {name}, found null")


COUNTS = ["added_files_count", "existing_files_count", "deleted_files_count"]


def recounted(table: Table, content: int, **counts: int | None) -> None:
    relist(table, lambda m: replace(m, **counts) if m.content == content else m)


@pytest.mark.parametrize("found", [0, 4])
@pytest.mark.parametrize("name", COUNTS)
def test_wrong_counts_of_a_data_manifest_are_findings(table: Table, name: str, found: int) -> None:
    """ClickHouse counts one file in a manifest of four; Java, PyIceberg, DuckDB and ClickHouse read it."""
    recounted(table, 0, **{name: found})
    wrong = found or name == COUNTS[0]
    findings = iceberg.verify(table)
    assert {finding.kind for finding in findings} == ({"mismatch"} if wrong else set())
    assert all(f"{name}: expected {found} (manifest list), found" in f.message for f in findings)
    assert rows(table) == table.scan().to_arrow().num_rows == iceberg.scan(table).count() == 95
    iceberg.delete(table, "id in (2, 12)")
    iceberg.append(table, pa.table({"id": [1000]}))
    assert rows(table) == table.scan().to_arrow().num_rows == 94
    assert iceberg.maintain(table) is not None
    assert rows(table) == 94


@pytest.mark.parametrize("content", [0, 1])
def test_counts_of_no_live_file_hide_no_rows_and_no_deletes(table: Table, content: int) -> None:
    recounted(table, content, added_files_count=0, existing_files_count=0, deleted_files_count=0)
    assert rows(table) == table.scan().to_arrow().num_rows == iceberg.scan(table).count() == 95
    assert {finding.kind for finding in iceberg.verify(table)} == {"mismatch"}
    other = iceberg.plan_files(table)
    iceberg.append(table, pa.table({"id": [1000]}))
    assert rows(table) == 96
    assert len(iceberg.plan_files(table).tasks) == len(other.tasks) + 1
    assert iceberg.verify(table) == []  # the commit wrote the right counts


@pytest.mark.parametrize("more", [-1, 1, 7])
@pytest.mark.parametrize("name", COUNTS)
def test_wrong_counts_of_a_delete_manifest_are_findings(table: Table, name: str, more: int) -> None:
    """PyIceberg and Java read them: the manifest has the length that the list states, so no entry is lost."""
    relist(table, lambda m: replace(m, **{name: max(getattr(m, name) + more, 0)}) if m.content else m)
    wrong = more > 0 or name == COUNTS[0]
    assert {finding.kind for finding in iceberg.verify(table)} == ({"mismatch"} if wrong else set())
    assert rows(table) == table.scan().to_arrow().num_rows == iceberg.scan(table).count() == 95
    iceberg.delete(table, "id in (2, 12)")
    iceberg.append(table, pa.table({"id": [1000]}))
    assert rows(table) == 94
    iceberg.maintain(table)
    assert rows(table) == 94


@pytest.mark.parametrize("difference", [-7, 46])
def test_a_delete_manifest_of_fewer_entries_and_another_length_than_its_list_says_is_refused(
    table: Table, difference: int
) -> None:
    """Rows that the lost entries delete would come back."""
    changes = {"added_files_count": 9}
    relist(table, lambda m: replace(m, length=m.length + difference, **changes) if m.content else m)
    with pytest.raises(CorruptDataError, match="size of a manifest"):
        rows(table)


@pytest.mark.parametrize("content", [0, 1])
def test_a_wrong_min_sequence_number_hides_no_deletes_and_is_a_finding(table: Table, content: int) -> None:
    relist(
        table,
        lambda m: replace(m, min_sequence_number=m.sequence_number + 100) if m.content == content else m,
    )
    assert rows(table) == iceberg.scan(table).count() == 95
    assert iceberg.scan(table, "id < 30").count() == sum(
        i < 30 for i in iceberg.scan(table).to_arrow()["id"].to_pylist()
    )
    found = iceberg.verify(table)
    assert {finding.kind for finding in found} == {"mismatch"}
    assert all("min_sequence_number: expected 1" in finding.message for finding in found)
    iceberg.delete(table, "id in (2, 12)")
    iceberg.append(table, pa.table({"id": [1000]}))
    assert rows(table) == 94
    iceberg.maintain(table)
    assert rows(table) == 94


def test_wrong_row_counts_give_no_row_id_twice(racing: SqlCatalog) -> None:
    """The first commit after an upgrade assigns row ids to manifests of other writers."""
    table = racing.create_table("n.v2", pa.schema([("id", pa.int64())]))
    for first in (0, 10, 20):
        table.append(pa.table({"id": range(first, first + 10)}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    listed = read_manifest_list(table.io, snapshot.manifest_list)
    write_manifest_list(
        table.io,
        snapshot.manifest_list,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        manifests=[replace(manifest, added_rows_count=1) for manifest in listed],
        format_version=2,
    )
    iceberg.upgrade(table)
    iceberg.append(table, pa.table({"id": [1000]}))
    ids = sorted((t.data.first_row_id or 0, t.data.record_count) for t in iceberg.plan_files(table).tasks)
    assert [first for first, _ in ids] == [0, 1, 11, 21]


def test_where_counts_are_unknown_a_short_manifest_is_refused(table: Table) -> None:
    manifest = read_manifest_list(table.io, str(list_of(table)))[0]
    unknown = replace(manifest, added_files_count=None, existing_files_count=None, deleted_files_count=None)
    assert read_manifest(table.io, unknown) == read_manifest(table.io, manifest)
    with pytest.raises(CorruptDataError, match="size of a manifest"):
        read_manifest(table.io, replace(unknown, length=manifest.length + 1))


def test_row_counts_are_compared_by_verify(table: Table) -> None:
    relist(table, lambda m: replace(m, added_rows_count=(m.added_rows_count or 0) + 1) if m.content else m)
    assert rows(table) == 95
    (finding,) = iceberg.verify(table)
    assert finding.kind == "mismatch"
    assert finding.message.endswith("added_rows_count: expected 6 (manifest list), found 5")


def eight_bytes(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


@pytest.mark.parametrize(
    ("metric", "value", "row_filter", "message"),
    [
        ("lower_bounds", eight_bytes(7), "id < 5", "lower bound of column id: expected at most 2 (footer)"),
        ("upper_bounds", eight_bytes(3), "id > 5", "upper bound of column id: expected at least 9 (footer)"),
        ("null_value_counts", 10, "id = 5", "null_value_counts of field 1: expected 10 (manifest), found 2"),
        ("value_counts", 2, "id = 5", "value_counts of field 1: expected 2 (manifest), found 10 (footer)"),
    ],
)
def test_wrong_metrics_of_a_data_file_are_found_by_verify(
    racing: SqlCatalog, metric: str, value: Any, row_filter: str, message: str
) -> None:
    """Filters omit files by the bounds."""
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": [None, None, *range(2, 10)]}))
    iceberg.delete(table, "id = 9")
    before = iceberg.scan(table, row_filter).to_arrow().num_rows
    (manifest,) = (m for m in read_manifest_list(table.io, str(list_of(table))) if m.content == 0)

    def change(entries: list[Any]) -> None:
        entries[0]["data_file"][metric][0]["value"] = value

    rewrite_manifest(local(manifest.path), change)
    # counts that contradict the bounds exclude nothing
    assert (iceberg.scan(table, row_filter).to_arrow().num_rows < before) == metric.endswith("bounds")
    found = [finding for finding in iceberg.verify(table) if finding.kind == "mismatch"]
    assert len(found) == 1
    assert message in found[0].message
    assert not [f for f in iceberg.verify(table, level="metadata") if f.kind == "mismatch"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("string", ["b" * 90, "b" * 100, "\u00ff" * 40, "\U0010ffff" * 20, ""]),
        ("bytes", [b"\xff" * 90, b"\xff" * 20 + b"a", b"", b"\0", b"ab"]),
        ("double", [float("nan"), -0.0, 0.0, float("inf"), -1e300]),
        ("float", pa.array([float("nan"), 1.5, None, -2.5, 0.0], pa.float32())),
        ("decimal", pa.array([1, -5, None, 99, 7], pa.decimal128(30, 2))),
        ("small decimal", pa.array([1, -5, None, 99, 7], pa.decimal128(9, 2))),
        ("date", pa.array([1, -5, None, 99, 7], pa.date32())),
        ("timestamp", pa.array([1, -5, None, 99, 7], pa.timestamp("us"))),
        ("zoned", pa.array([1, -5, None, 99, 7], pa.timestamp("us", "UTC"))),
        ("nanoseconds", pa.array([1, -5_001, None, 9_999, 7], pa.timestamp("ns"))),
        ("time", pa.array([1, 5, None, 99, 7], pa.time64("us"))),
        ("boolean", [True, None, False, True, True]),
        ("nulls", pa.nulls(5, pa.string())),
        ("fixed", pa.array([b"\xff\xff", b"ab", None, b"\0\0", b"cd"], pa.binary(2))),
        ("list", [[1, 2], None, [], [None], [3]]),
        ("struct", [{"a": 1}, None, {"a": None}, {"a": 5}, {"a": -7}]),
    ],
)
def test_right_metrics_are_no_finding(racing: SqlCatalog, name: str, values: Any) -> None:
    rows = pa.table({"id": range(5), name: values})
    table = iceberg.create_table(racing, "n.t", rows.schema, types=nanosecond_types(rows.schema))
    iceberg.append(table, rows)
    iceberg.delete(table, "id = 1")
    assert iceberg.verify(table) == []


def header_bytes(data: bytes) -> int:
    """Where the blocks of an Avro file begin."""
    sync = data[-16:]
    return data.index(sync) + len(sync)


def test_a_manifest_list_cut_after_its_header_is_refused(table: Table) -> None:
    path = list_of(table)
    data = path.read_bytes()
    path.write_bytes(data[: header_bytes(data)])
    refused(table, r"manifests of a snapshot: expected total-data-files 10 \(snapshot \d+\), found none")


def test_a_manifest_cut_after_its_header_is_refused(table: Table) -> None:
    for manifest in read_manifest_list(table.io, str(list_of(table))):
        path = local(manifest.path)
        data = path.read_bytes()
        path.write_bytes(data[: header_bytes(data)])
        with pytest.raises(CorruptDataError, match=path.name):
            rows(table)
        path.write_bytes(data)
    assert rows(table) == 95


def test_a_block_that_counts_below_zero_is_refused(table: Table) -> None:
    for path in [list_of(table), *(local(m.path) for m in read_manifest_list(table.io, str(list_of(table))))]:
        data = path.read_bytes()
        at = header_bytes(data)
        path.write_bytes(data[:at] + bytes([data[at] | 1]) + data[at + 1 :])  # zigzag: the sign bit
        with pytest.raises(
            CorruptDataError, match=rf"{path.name}: offset {at}: count and size of an Avro block"
        ):
            rows(table)
        path.write_bytes(data)
    assert rows(table) == 95


def test_lost_manifests_are_found_by_verify(table: Table) -> None:
    whole = read_manifest_list(table.io, str(list_of(table)))
    first = next(manifest.path for manifest in whole if manifest.content == 0)
    relist(table, lambda manifest: None if manifest.path == first else manifest)
    messages = " ".join(finding.message for finding in iceberg.verify(table))
    assert "total-data-files: expected 10 (snapshot summary), found 9" in messages
    assert "total-records: expected 100 (snapshot summary), found 90" in messages
    relist(table, lambda manifest: None if manifest.content else manifest)
    messages = " ".join(finding.message for finding in iceberg.verify(table))
    assert "total-delete-files: expected 5 (snapshot summary), found 0" in messages


def test_a_branch_that_names_a_missing_snapshot_is_refused_and_named(table: Table) -> None:
    def change(document: dict[str, Any]) -> None:
        document["refs"]["main"]["snapshot-id"] = document["current-snapshot-id"] = 4711

    rewrite_metadata(table, change)
    refused(table, "snapshot of 'main': expected 4711, found none of this id among 11 snapshots")


def test_a_current_snapshot_that_is_not_mains_is_refused(table: Table) -> None:
    rewrite_metadata(table, lambda document: document.update({"current-snapshot-id": -1}))
    refused(table, r"current snapshot of a table: expected \d+ \(branch 'main'\), found none")


def test_another_reference_to_a_missing_snapshot_is_a_finding(table: Table) -> None:
    tag = {"snapshot-id": 4711, "type": "tag"}
    rewrite_metadata(table, lambda document: document["refs"].update({"old": tag}))
    assert rows(table) == 95
    (finding,) = iceberg.verify(table)
    assert (finding.kind, finding.path) == ("missing", table.metadata_location)
    assert "'old': expected snapshot 4711, found none" in finding.message
    with pytest.raises(CorruptDataError, match="snapshot of 'old': expected 4711"):
        iceberg.scan(table, tag="old")
    with pytest.raises(CorruptDataError, match="snapshot of 'old': expected 4711"):
        iceberg.orphan_files(table)


def rewrite_manifest(path: Path, change: Callable[[list[Any]], object]) -> None:
    """Changes values of a manifest's entries, which stays a valid file."""
    with path.open("rb") as stream:
        reader: Any = fastavro.reader(stream)
        schema, metadata, records = reader.writer_schema, reader.metadata, list(reader)
    change(records)
    metadata = {name: value for name, value in metadata.items() if not name.startswith("avro.")}
    changed = BytesIO()
    fastavro.writer(changed, schema, records, metadata=metadata)
    path.write_bytes(changed.getvalue())


def delete_manifest(table: Table) -> Path:
    (path,) = (local(m.path) for m in read_manifest_list(table.io, str(list_of(table))) if m.content == 1)
    return path


@pytest.mark.parametrize("number", [0, 10, 12, -1])
def test_a_vector_of_another_sequence_number_than_its_list_says_is_refused(table: Table, number: int) -> None:
    rewrite_manifest(delete_manifest(table), lambda entries: entries[3].update(sequence_number=number))
    with pytest.raises(CorruptDataError, match=rf"expected 11 to 11 \(manifest list\), found {number}"):
        rows(table)


def test_a_vector_of_two_data_files_is_refused(table: Table) -> None:
    def share(entries: list[Any]) -> None:
        first, second = (entry["data_file"] for entry in entries[:2])
        second |= {name: first[name] for name in ("content_offset", "content_size_in_bytes", "record_count")}

    rewrite_manifest(delete_manifest(table), share)
    with pytest.raises(CorruptDataError, match="offset 4: data files of a deletion vector: expected one"):
        rows(table)
    assert "or later (manifest), found an overlap" in str(iceberg.verify(table))


def test_a_delete_file_of_an_unknown_format_is_refused(table: Table) -> None:
    change = {"file_format": "7uffin", "referenced_data_file": "elsewhere"}
    rewrite_manifest(delete_manifest(table), lambda entries: entries[0]["data_file"].update(change))
    with pytest.raises(UnsupportedError, match=r"file_format of .*: expected PUFFIN or .*, found 7UFFIN"):
        rows(table)


def test_a_vector_that_is_older_than_its_data_file_does_not_apply_and_is_found(table: Table) -> None:
    """As the specification has it; `verify` says so."""
    relist(table, lambda m: replace(m, min_sequence_number=1, sequence_number=1) if m.content else m)
    assert rows(table) == 99  # the first data file has number 1
    found = [finding for finding in iceberg.verify(table) if finding.kind == "dangling"]
    assert len(found) == 4
    assert "at most 1 (its deletes), found" in found[0].message


def test_a_location_that_no_filesystem_has_is_named(table: Table) -> None:
    change = {"file_path": "fgle:///a.puffin"}
    rewrite_manifest(delete_manifest(table), lambda entries: entries[0]["data_file"].update(change))
    with pytest.raises(UnsupportedError, match=r"fgle:///a\.puffin"):
        rows(table)
    assert "fgle:///a.puffin" in str(iceberg.verify(table))


def optional(schema: Any, depth: int = 0) -> Any:
    """A schema in which every field and item may be null, as BigQuery's export writes it."""
    if isinstance(schema, list):
        (schema,) = (part for part in schema if part != "null")
        return optional(schema, depth)
    if isinstance(schema, dict) and schema["type"] == "record":
        fields = [
            {**field, "type": ["null", optional(field["type"], depth + 1)], "default": None}
            for field in schema["fields"]
        ]
        return {**schema, "fields": fields}
    if isinstance(schema, dict) and schema["type"] == "array":
        return {**schema, "items": ["null", optional(schema["items"], depth + 1)]}
    return schema


@pytest.mark.parametrize("n_files", [1, 400])
def test_manifests_whose_fields_are_all_optional_are_read(racing: SqlCatalog, n_files: int) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": [1, 2]}))
    iceberg.delete(table, "id = 1")
    for manifest in read_manifest_list(table.io, str(list_of(table))):
        path = local(manifest.path)
        with path.open("rb") as stream:
            reader: Any = fastavro.reader(stream)
            schema, metadata, records = reader.writer_schema, reader.metadata, list(reader)
        repeats = n_files if manifest.content == 0 else 1
        metadata = {name: value for name, value in metadata.items() if not name.startswith("avro.")}
        changed = BytesIO()
        names: set[str] = set()
        fastavro.writer(changed, clean(optional(schema), names), records * repeats, metadata=metadata)
        path.write_bytes(changed.getvalue())
    relist(table, lambda m: m if m.content else replace(m, added_files_count=n_files))
    assert len(iceberg.plan_files(table).tasks) == n_files
    assert {task.vector is not None for task in iceberg.plan_files(table).tasks} == {True}
    if n_files == 1:
        assert iceberg.scan(table, "id > 1").to_arrow()["id"].to_pylist() == [2]


def clean(schema: Any, names: set[str]) -> Any:
    """The schema without the attributes that fastavro adds when it parses one."""
    if isinstance(schema, list):
        return [clean(part, names) for part in schema]
    if isinstance(schema, dict):
        return {k: clean(v, names) for k, v in schema.items() if not k.startswith("__")}
    return schema


@pytest.mark.parametrize("swapped", [True, False], ids=["exchanged", "one id twice"])
def test_the_manifest_list_of_another_snapshot_is_refused(table: Table, swapped: bool) -> None:
    def exchange(document: dict[str, Any]) -> None:
        first, *_, last = document["snapshots"]
        if swapped:
            last["snapshot-id"] = first["snapshot-id"]
        first["snapshot-id"] = document["current-snapshot-id"]

    rewrite_metadata(table, exchange)
    refused(
        table, rf"snapshot-id of a manifest list.*expected {table.metadata.current_snapshot_id}, found \d+"
    )


@pytest.mark.parametrize(
    "damage",
    [
        ('"last-column-id": 1', '"last-column-id": NaN'),
        ('"last-column-id": 1', '"last-column-id": ' + "9" * 1_000_000),
        ('"last-column-id": 1', '"last-column-id": 1, "x": ' + "[" * 1_000_000 + "]" * 1_000_000),
    ],
    ids=["not a number", "digits", "nested"],
)
def test_a_metadata_file_that_pyiceberg_cannot_read_is_an_error_of_this_package(
    table: Table, damage: tuple[str, str]
) -> None:
    path = local(table.metadata_location)
    text = json.dumps(json.loads(path.read_bytes()))
    assert damage[0] in text
    path.write_text(text.replace(*damage))
    verbs: list[Callable[[], object]] = [
        lambda: iceberg.orphan_files(table),
        lambda: iceberg.append(table, pa.table({"id": [1000]})),
        lambda: iceberg.delete(table, "id = 3"),
    ]
    for verb in verbs:
        with pytest.raises(UnsupportedError, match=r"n\.t: PyIceberg cannot read the metadata"):
            verb()
