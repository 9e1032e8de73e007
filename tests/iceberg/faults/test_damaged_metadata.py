"""Metadata that lost files is refused; metadata with only a wrong count is read, and `verify` reports it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.iceberg.manifest import (
    ManifestFile,
    PartitionSummary,
    manifests_of,
    read_manifest,
    read_manifest_list,
    write_manifest_list,
)
from tests.iceberg.conftest import current_snapshot
from tests.kit.avro_files import rewrite_avro
from tests.kit.nanoseconds import nanosecond_types
from tests.kit.tables import iceberg_table, parts, path_of


@pytest.fixture
def table(racing: SqlCatalog) -> Table:
    """Ten data files of ten ids, five of them with a vector."""
    table = iceberg_table(racing, parts(pa.table({"id": range(100)}), 10))
    iceberg.delete(table, "id in (1, 11, 21, 31, 41)")
    assert iceberg.verify(table) == []
    return table


def rows(table: Table) -> int:
    return iceberg.scan(table).to_arrow().num_rows


def list_of(table: Table) -> Path:
    snapshot = current_snapshot(table)
    return path_of(snapshot.manifest_list)


def relist(table: Table, change: Callable[[ManifestFile], ManifestFile | None]) -> None:
    """Writes the current manifest list anew."""
    snapshot = current_snapshot(table)
    found = read_manifest_list(table.io, snapshot.manifest_list)
    write_manifest_list(
        table.io,
        snapshot.manifest_list,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        manifests=[changed for manifest in found if (changed := change(manifest)) is not None],
        first_row_id=0,
        format_version=table.format_version,
    )


def rewrite_metadata(table: Table, change: Callable[[dict[str, Any]], object]) -> None:
    path = path_of(table.metadata_location)
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


@pytest.mark.parametrize("name", ["manifest_path", "manifest_length", "partition_spec_id"])
def test_null_in_a_required_field_of_a_manifest_list_is_refused(table: Table, name: str) -> None:
    def change(records: list[Any], schema: Any) -> None:
        (field,) = (field for field in schema["fields"] if field["name"] == name)
        field["type"] = ["null", field["type"]]
        for record in records:
            record[name] = None

    rewrite_avro(list_of(table), change)
    refused(table, f"record of a manifest list: expected {name}, found null")


EITHER, DATA, DELETES = (0, 1), (0,), (1,)
COUNTS = {
    (EITHER, "length"): (-7, 46, 100_000),
    (DATA, "added_files_count"): (-1, 3),
    (DATA, "existing_files_count"): (4,),
    (DATA, "deleted_files_count"): (4,),
    (DATA, "added_rows_count"): (60,),
    (DATA, "existing_rows_count"): (70,),
    (DATA, "min_sequence_number"): (100,),
    (DELETES, "added_files_count"): (-5, -1, 1, 7),
    (DELETES, "existing_files_count"): (1, 7),
    (DELETES, "deleted_files_count"): (1, 7),
    (DELETES, "added_rows_count"): (1,),
    (DELETES, "min_sequence_number"): (100,),
}
"""The content of manifests, a number of the manifest list about them, and by how much it is wrong."""


@pytest.mark.parametrize(
    ("contents", "name", "more"), [(*what, more) for what, wrong in COUNTS.items() for more in wrong]
)
def test_a_wrong_number_of_a_manifest_list_is_a_finding_and_hides_no_rows_and_no_deletes(
    table: Table, contents: tuple[int, ...], name: str, more: int
) -> None:
    """Java, PyIceberg and DuckDB read such tables, too, as the manifests are whole; but PyIceberg omits deletes that
    are older than the sequence number."""
    relist(table, lambda m: replace(m, **{name: getattr(m, name) + more}) if m.content in contents else m)
    wrong = [m for m in read_manifest_list(table.io, str(list_of(table))) if m.content in contents]
    found = iceberg.verify(table)
    assert {finding.kind for finding in found} == {"stale" if name == "length" else "mismatch"}
    assert len(found) == len(wrong)
    words = {
        "length": "bytes (manifest list), found",
        "min_sequence_number": "min_sequence_number: expected 1",
    }.get(name, f"{name}: expected {getattr(wrong[0], name)} (manifest list), found")
    assert all(words in finding.message for finding in found)
    theirs = [] if name == "min_sequence_number" else [table.scan().to_arrow().num_rows]
    assert {rows(table), iceberg.scan(table).count(), *theirs} == {95}
    assert iceberg.scan(table, "id < 30").count() == 27
    iceberg.append(table, pa.table({"id": [1000]}))
    if name == "added_files_count" and getattr(wrong[0], name) == 0:  # the commit wrote the right ones
        assert iceberg.verify(table) == []
    iceberg.delete(table, "id in (2, 12)")
    assert rows(table) == 94
    iceberg.maintain(table)
    assert rows(table) == 94
    assert iceberg.verify(table) == []


def test_scans_rely_on_inherited_numbers_and_bounds_of_partitions_as_pyiceberg_does(
    racing: SqlCatalog,
) -> None:
    """As docs/limits.md says."""
    rows = [{"id": range(3), "part": [part] * 3} for part in ("a", "b")]
    table = iceberg_table(racing, rows, partition=["part"])
    first = manifests_of(table.io, current_snapshot(table))[-1].path
    bounds = [PartitionSummary(False, False, b"x", b"z")]
    relist(table, lambda m: replace(m, partitions=bounds) if m.path == first else m)
    assert iceberg.scan(table).count() == table.scan().count() == 6
    assert iceberg.scan(table, "part = 'a'").count() == 0
    assert table.scan("part = 'a'").to_arrow().num_rows == 0
    assert iceberg.scan(table, "part = 'b'").count() == table.scan("part = 'b'").count() == 3
    relist(table, lambda m: replace(m, first_row_id=500) if m.path == first else m)
    found = {task.data.partition: task.data for task in iceberg.plan_files(table).tasks}
    assert (found[("a",)].sequence_number, found[("a",)].first_row_id) == (1, 500)
    assert {entry["sequence_number"] for entry in table.inspect.entries().to_pylist()} == {1, 2}


@pytest.mark.parametrize("difference", [-7, 46])
def test_a_delete_manifest_of_fewer_entries_and_another_length_than_its_list_says_is_refused(
    table: Table, difference: int
) -> None:
    """Rows that the lost entries delete would come back."""
    changes = {"added_files_count": 9}
    relist(table, lambda m: replace(m, length=m.length + difference, **changes) if m.content else m)
    with pytest.raises(CorruptDataError, match="size of a manifest"):
        rows(table)


def test_wrong_row_counts_give_no_row_id_twice(racing: SqlCatalog) -> None:
    """The first commit after an upgrade assigns row ids to manifests of other writers."""
    table = iceberg_table(
        racing, parts(pa.table({"id": range(30)}), 3), name="n.v2", version=2, by="pyiceberg"
    )
    relist(table, lambda manifest: replace(manifest, added_rows_count=1))
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
    table = iceberg_table(racing, {"id": [None, None, *range(2, 10)]})
    iceberg.delete(table, "id = 9")
    before = iceberg.scan(table, row_filter).to_arrow().num_rows
    (manifest,) = (m for m in read_manifest_list(table.io, str(list_of(table))) if m.content == 0)

    def change(entries: list[Any], schema: Any) -> None:
        entries[0]["data_file"][metric][0]["value"] = value

    rewrite_avro(path_of(manifest.path), change)
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
        path = path_of(manifest.path)
        data = path.read_bytes()
        path.write_bytes(data[: header_bytes(data)])
        with pytest.raises(CorruptDataError, match=path.name):
            rows(table)
        path.write_bytes(data)
    assert rows(table) == 95


def test_a_block_that_counts_below_zero_is_refused(table: Table) -> None:
    for path in [
        list_of(table),
        *(path_of(m.path) for m in read_manifest_list(table.io, str(list_of(table)))),
    ]:
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


def swap_lists(metadata: dict[str, Any]) -> None:
    """The first and the last snapshot have the manifest list of each other."""
    first, *_, last = metadata["snapshots"]
    last["snapshot-id"] = first["snapshot-id"]
    first["snapshot-id"] = metadata["current-snapshot-id"]


def use_id_twice(metadata: dict[str, Any]) -> None:
    metadata["snapshots"][0]["snapshot-id"] = metadata["current-snapshot-id"]


def lose_main(metadata: dict[str, Any]) -> None:
    metadata["refs"]["main"]["snapshot-id"] = metadata["current-snapshot-id"] = 4711


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lose_main, "snapshot of 'main': expected 4711, found none of this id among 11 snapshots"),
        (
            lambda metadata: metadata.update({"current-snapshot-id": -1}),
            r"current snapshot of a table: expected \d+ \(branch 'main'\), found none",
        ),
        (swap_lists, r"snapshot-id of a manifest list.*expected \d+, found \d+"),
        (use_id_twice, r"snapshot-id of a manifest list.*expected \d+, found \d+"),
    ],
)
def test_metadata_of_a_head_that_is_not_its_snapshot_is_refused(
    table: Table, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    rewrite_metadata(table, change)
    refused(table, words)


def test_another_reference_to_a_missing_snapshot_is_a_finding(table: Table) -> None:
    tag = {"snapshot-id": 4711, "type": "tag"}
    rewrite_metadata(table, lambda document: document["refs"].update({"old": tag}))
    assert rows(table) == 95
    (finding,) = iceberg.verify(table)
    assert (finding.kind, finding.path) == ("missing", table.metadata_location)
    assert "'old': expected snapshot 4711, found none" in finding.message
    for verb in (lambda: iceberg.scan(table, tag="old"), lambda: iceberg.orphan_files(table)):
        with pytest.raises(CorruptDataError, match="snapshot of 'old': expected 4711"):
            verb()


def delete_manifest(table: Table) -> Path:
    (path,) = (path_of(m.path) for m in read_manifest_list(table.io, str(list_of(table))) if m.content == 1)
    return path


def share(entries: list[Any]) -> None:
    """Two data files have one vector."""
    first, second = (entry["data_file"] for entry in entries[:2])
    second |= {name: first[name] for name in ("content_offset", "content_size_in_bytes", "record_count")}


def set_file(**values: str) -> Callable[[list[Any]], None]:
    return lambda entries: entries[0]["data_file"].update(values)


@pytest.mark.parametrize(
    ("change", "error", "words", "finding"),
    [
        *(
            (lambda entries, n=n: entries[3].update(sequence_number=n), CorruptDataError,
             rf"expected 11 to 11 \(manifest list\), found {n}", None)
            for n in (0, 10, 12, -1)
        ),
        (share, CorruptDataError, "offset 4: data files of a deletion vector: expected one", "found an overlap"),
        (set_file(file_format="7uffin", referenced_data_file="elsewhere"), UnsupportedError,
         r"file_format of .*: expected PUFFIN or .*, found 7UFFIN", None),
        (set_file(file_path="fgle:///a.puffin"), UnsupportedError, r"fgle:///a\.puffin", "fgle:///a.puffin"),
    ],
)  # fmt: skip
def test_a_delete_manifest_with_a_wrong_vector_is_refused(
    table: Table, change: Callable[[list[Any]], None], error: type[Exception], words: str, finding: str | None
) -> None:
    rewrite_avro(delete_manifest(table), lambda entries, _: change(entries))
    with pytest.raises(error, match=words):
        rows(table)
    if finding is not None:
        assert finding in str(iceberg.verify(table))


def test_a_vector_that_is_older_than_its_data_file_does_not_apply_and_is_found(table: Table) -> None:
    """As the specification has it; `verify` says so."""
    relist(table, lambda m: replace(m, min_sequence_number=1, sequence_number=1) if m.content else m)
    assert rows(table) == 99  # the first data file has number 1
    found = [finding for finding in iceberg.verify(table) if finding.kind == "dangling"]
    assert len(found) == 4
    assert "at most 1 (its deletes), found" in found[0].message


def optional(schema: Any) -> Any:
    """A schema in which every field and item may be null, as BigQuery's export writes it."""
    if isinstance(schema, list):
        (schema,) = (part for part in schema if part != "null")
        return optional(schema)
    if isinstance(schema, dict):
        schema = {key: value for key, value in schema.items() if not key.startswith("__")}  # fastavro's own
        if schema["type"] == "record":
            fields = [
                {**field, "type": ["null", optional(field["type"])], "default": None}
                for field in schema["fields"]
            ]
            return {**schema, "fields": fields}
        if schema["type"] == "array":
            return {**schema, "items": ["null", optional(schema["items"])]}
    return schema


@pytest.mark.parametrize("n_files", [1, 400])
def test_manifests_whose_fields_are_all_optional_are_read(racing: SqlCatalog, n_files: int) -> None:
    table = iceberg_table(racing, {"id": [1, 2]})
    iceberg.delete(table, "id = 1")

    def repeat(entries: list[Any], schema: Any) -> Any:
        if entries[0]["data_file"]["content"] == 0:
            entries *= n_files
        return optional(schema)

    for manifest in read_manifest_list(table.io, str(list_of(table))):
        rewrite_avro(path_of(manifest.path), repeat)
    relist(table, lambda m: m if m.content else replace(m, added_files_count=n_files))
    assert len(iceberg.plan_files(table).tasks) == n_files
    assert {task.vector is not None for task in iceberg.plan_files(table).tasks} == {True}
    if n_files == 1:
        assert iceberg.scan(table, "id > 1").to_arrow()["id"].to_pylist() == [2]


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
    path = path_of(table.metadata_location)
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
