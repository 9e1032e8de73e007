"""Values of other types in metadata files, manifests and Puffin footers, and values that contradict each other: each
verb raises an error of this package, or returns the right rows."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.iceberg.manifest import manifests_of
from tests.iceberg.conftest import current_snapshot
from tests.kit.faults import RacingCatalog
from tests.kit.tables import path_of
from tests.kit.values import KINDS, avro_cases, avro_replaced, places, replaced

N_CASES = int(os.environ.get("PUFFIN_FAST_OPERATIONS", 100))
SCHEMA = pa.schema(
    {"id": pa.int64(), "part": pa.int64(), "x": pa.float64(), "l": pa.list_(pa.struct({"a": pa.string()}))}
)
ROWS = pa.table([range(10), [0, 1] * 5, [1.5, None] * 5, [[{"a": "x"}]] * 10], schema=SCHEMA)


def make(catalog: RacingCatalog, version: int) -> Table:
    """A table with partitions, a vector in each and statistics; nothing is committed to it anew."""
    properties = {"format-version": str(min(version, 2)), "commit.retry.num-retries": "0"}
    table = catalog.create_table("n.t", SCHEMA, properties=properties)
    with table.update_spec() as update:
        update.add_identity("part").add_field("id", BucketTransform(2), "bucket")
    if version == 3:
        iceberg.upgrade(table)
    table.append(ROWS) if version == 1 else iceberg.append(table, ROWS)
    if version > 1:
        iceberg.delete(table, "id = 4")
        iceberg.delete(table, "part = 1 and id = 1")
    iceberg.collect_ndv(table, ["id", "part", "x"])
    return catalog.load_table("n.t")


def count(table: Table) -> None:
    assert iceberg.scan(table).count() == iceberg.scan(table).to_arrow().num_rows


VERBS: tuple[Callable[[Table], object], ...] = (
    count,
    lambda table: iceberg.scan(table, "part = 1 and id > 4 and x is null").to_arrow(),
    iceberg.verify,
    iceberg.report,
    lambda table: iceberg.maintain(table, dry_run=True),
    lambda table: iceberg.repair(table, dry_run=True),
    lambda table: iceberg.delete(table, "id = 5", dry_run=True),
)


def run(table: Table) -> None:
    for verb in VERBS:
        with suppress(PuffinFastError):
            verb(table)


def check(table: Table, path: Path, case: object, data: bytes | None) -> None:
    """Runs the verbs with other bytes in place of a file's."""
    if data is None:
        return
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        run(table)
    except Exception as error:
        error.add_note(f"{path.name}: {case}")
        raise
    path.write_bytes(before)


def manifests(table: Table) -> list[Path]:
    snapshot = current_snapshot(table)
    return [path_of(manifest.path) for manifest in manifests_of(table.io, snapshot)]


@pytest.mark.parametrize("version", [2, 3])
def test_values_of_manifests_are_refused_or_read(racing: RacingCatalog, version: int) -> None:
    table = make(racing, version)
    files = [path_of(current_snapshot(table).manifest_list), *manifests(table)]
    for seed, path in enumerate(files):
        data = path.read_bytes()
        cases = avro_cases(data)
        for case in random.Random(seed).sample(cases, min(len(cases), N_CASES // 4 // len(files))):
            check(table, path, case, avro_replaced(data, case))


CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("value", ("data_file", "record_count"), 2**63 - 1),
    ("value", ("data_file", "record_count"), -1),
    ("value", ("data_file", "file_size_in_bytes"), 2**63 - 1),
    ("type", ("data_file", "partition", "part"), {}),
    ("type", ("data_file", "partition", "part"), [0]),
]
"""Values that verbs raised other errors for."""


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("version", [2, 3])
def test_values_that_no_file_has_are_refused_or_read(
    racing: RacingCatalog, version: int, case: tuple[str, tuple[Any, ...], Any]
) -> None:
    table = make(racing, version)
    for path in manifests(table):
        check(table, path, case, avro_replaced(path.read_bytes(), case))


@pytest.mark.parametrize("version", [2, 3])
def test_values_of_puffin_footers_are_refused_or_read(racing: RacingCatalog, version: int) -> None:
    table = make(racing, version)
    vectors = (task.vector for task in iceberg.plan_files(table).tasks)
    paths = {vector.file_path for vector in vectors if vector is not None}
    for seed, path in enumerate(sorted(paths | {file.statistics_path for file in table.metadata.statistics})):
        data = path_of(path).read_bytes()
        start = len(data) - 12 - int.from_bytes(data[-12:-8], "little")
        document: dict[str, Any] = json.loads(data[start:-12])
        cases = [(at, kind) for at in places(document) for kind in KINDS]
        for at, kind in random.Random(seed).sample(cases, min(len(cases), N_CASES // 15)):
            body = json.dumps(replaced(document, at, kind)).encode()
            changed = data[:start] + body + len(body).to_bytes(4, "little") + data[-8:]
            check(table, path_of(path), (at, kind), changed)


# Metadata files ------------------------------------------------------------------------------------------------


def changed(catalog: RacingCatalog, version: int, *changes: tuple[tuple[Any, ...], Any]) -> tuple[Table, str]:
    """A table with other values in its metadata file; and the name of this file."""
    path = path_of(make(catalog, version).metadata_location)
    document = json.loads(path.read_bytes())
    for at, value in changes:
        document = replaced(document, at, value)
    path.write_text(json.dumps(document))
    return iceberg.load_table(catalog, "n.t"), path.name


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_verb_raises_only_errors_of_this_package(racing: RacingCatalog, version: int) -> None:
    path = path_of(make(racing, version).metadata_location)
    document = json.loads(path.read_bytes())
    cases = [(at, kind) for at in places(document) for kind in KINDS]
    for at, kind in random.Random(version).sample(cases, N_CASES // 8):
        path.write_text(json.dumps(replaced(document, at, kind)))
        with suppress(PuffinFastError):
            run(iceberg.load_table(racing, "n.t"))


SPEC_FIELDS = ("partition-specs", 1, "fields")
CONTRADICTIONS: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "two fields of one id": ((*SPEC_FIELDS, 1, "field-id"), 1000, "field ids: .* 1000 twice"),
    "two fields of one name": ((*SPEC_FIELDS, 1, "name"), "part", "names: .* 'part' twice"),
    "a field without name": ((*SPEC_FIELDS, 0, "name"), "", "name of a field: expected"),
    "columns of one id": (("schemas", 0, "fields", 1, "id"), 1, "current schema: field ids: .* 1 twice"),
    "a number": (("last-sequence-number",), 2**63, "last-sequence-number: expected a number from 0 to"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_metadata_that_contradicts_itself_is_refused_with_file_and_field(
    racing: RacingCatalog, what: str
) -> None:
    at, value, words = CONTRADICTIONS[what]
    table, name = changed(racing, 3, (at, value))
    for verb in VERBS:
        with pytest.raises(CorruptDataError, match=f"{name}.*{words}"):
            verb(table)


@pytest.mark.parametrize(("id", "words"), [(77, ".* found 77"), (4, ".* not a struct, list or map, found 4")])
def test_a_source_id_of_no_value_is_refused_by_writers_and_read(
    racing: RacingCatalog, id: int, words: str
) -> None:
    table, _ = changed(racing, 3, ((*SPEC_FIELDS, 0, "source-id"), id))
    if id == 77:
        assert iceberg.scan(table).count() == 8
    with pytest.raises(CorruptDataError, match=f"source-id of field part: {words}"):
        iceberg.append(table, ROWS)
    for row_filter in ("id = 5", "part = 1"):
        with suppress(PuffinFastError):
            iceberg.delete(table, row_filter)


@pytest.mark.parametrize("value", [5, 2**70, [1], {"a": 1}])
def test_numbers_of_a_summary_that_are_no_texts_hide_no_rows(racing: RacingCatalog, value: Any) -> None:
    names = ("total-records", "total-delete-files", "total-position-deletes", "total-data-files")
    table, name = changed(racing, 3, *((("snapshots", -1, "summary", total), value) for total in names))
    assert iceberg.scan(table).count() == 8
    assert iceberg.report(table) is not None
    iceberg.verify(table)
    before = table.metadata_location
    with pytest.raises(CorruptDataError, match=rf"{name}: summary of snapshot \d+: total-.* a text, found"):
        iceberg.append(table, ROWS)
    assert table.refresh().metadata_location == before


def test_a_manifest_of_a_spec_that_the_table_does_not_have_is_refused(racing: RacingCatalog) -> None:
    table, _ = changed(racing, 3, (("partition-specs", 1, "spec-id"), 5), (("default-spec-id",), 5))
    for verb in VERBS:
        with pytest.raises(CorruptDataError, match=r"spec.* of a manifest: expected .*found 1"):
            verb(table)


@pytest.mark.parametrize("at", [("schemas", 0, "schema-id"), ("current-schema-id",)], ids=str)
def test_a_schema_that_version_1_metadata_does_not_have_is_refused(racing: RacingCatalog, at: Any) -> None:
    with pytest.raises(PuffinFastError):
        iceberg.scan(changed(racing, 1, (at, 7))[0]).count()


def test_modes_of_metrics_that_are_none_are_ignored(racing: RacingCatalog) -> None:
    """As Java's writer does."""
    modes = {"write.metadata.metrics.default": "most", "write.metadata.metrics.column.id": "truncate(x)"}
    table, _ = changed(racing, 3, (("properties",), {"commit.retry.num-retries": "0", **modes}))
    iceberg.append(table, ROWS)
    assert iceberg.scan(table).count() == 18
