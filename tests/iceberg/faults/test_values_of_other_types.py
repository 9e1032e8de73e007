"""Metadata with values of other types, or that contradict each other: an error of this package, or the right rows."""

from __future__ import annotations

import json
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
from tests.iceberg.conftest import RacingCatalog, local
from tests.values import KINDS, places, replaced

SCHEMA = pa.schema(
    [("id", pa.int64()), ("part", pa.int64()), ("l", pa.list_(pa.struct([("a", pa.string())])))]
)
ROWS = pa.table({"id": range(10), "part": [i % 2 for i in range(10)], "l": [[{"a": "x"}]] * 10}, SCHEMA)
CASES = 12
"""Random changes for each format version; 1,000 take some minutes."""


def make(catalog: RacingCatalog, version: int) -> Table:
    table = catalog.create_table(
        "n.t", SCHEMA, properties={"format-version": str(min(version, 2)), "commit.retry.num-retries": "0"}
    )
    with table.update_spec() as update:
        update.add_identity("part").add_field("id", BucketTransform(2), "bucket")
    if version == 3:
        iceberg.upgrade(table)
    table.append(ROWS) if version == 1 else iceberg.append(table, ROWS)
    if version > 1:
        iceberg.delete(table, "id = 3")
    return catalog.load_table("n.t")


def verbs(table: Table) -> list[Callable[[], object]]:
    return [
        lambda: iceberg.scan(table, "part = 1 and id > 4").to_arrow(),
        lambda: iceberg.scan(table).count(),
        lambda: iceberg.verify(table),
        lambda: iceberg.report(table),
        lambda: iceberg.maintain(table, dry_run=True),
        lambda: iceberg.delete(table, "id = 5", dry_run=True),
    ]


def load(catalog: RacingCatalog, document: dict[str, Any], path: Path) -> Table:
    path.write_text(json.dumps(document))
    return iceberg.load_table(catalog, "n.t")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_verb_raises_only_errors_of_this_package(racing: RacingCatalog, version: int) -> None:
    path = local(make(racing, version).metadata_location)
    document = json.loads(path.read_bytes())
    cases = [(at, kind) for at in places(document) for kind in KINDS]
    for at, kind in random.Random(version).sample(cases, CASES):
        with suppress(PuffinFastError):
            table = load(racing, replaced(document, at, kind), path)
            for verb in verbs(table):
                with suppress(PuffinFastError):
                    verb()


CONTRADICTIONS: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "two fields of one id": (
        ("partition-specs", 1, "fields", 1, "field-id"),
        1000,
        "field ids: .* 1000 twice",
    ),
    "two fields of one name": (("partition-specs", 1, "fields", 1, "name"), "part", "names: .* 'part' twice"),
    "a field without name": (("partition-specs", 1, "fields", 0, "name"), "", "name of a field: expected"),
    "columns of one id": (("schemas", 0, "fields", 1, "id"), 1, "current schema: field ids: .* 1 twice"),
    "a number": (("last-sequence-number",), 2**63, "last-sequence-number: expected a number from 0 to"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_metadata_that_contradicts_itself_is_refused_with_file_and_field(
    racing: RacingCatalog, what: str
) -> None:
    path = local(make(racing, 3).metadata_location)
    at, value, words = CONTRADICTIONS[what]
    table = load(racing, replaced(json.loads(path.read_bytes()), at, value), path)
    for verb in verbs(table):
        with pytest.raises(CorruptDataError, match=f"{path.name}.*{words}"):
            verb()


def test_a_source_id_that_no_schema_has_is_refused_by_writers_and_read(racing: RacingCatalog) -> None:
    path = local(make(racing, 3).metadata_location)
    at = ("partition-specs", 1, "fields", 0, "source-id")
    table = load(racing, replaced(json.loads(path.read_bytes()), at, 77), path)
    assert iceberg.scan(table).count() == 9
    with pytest.raises(CorruptDataError, match=r"source-id of field part: .* found 77"):
        iceberg.append(table, ROWS)
    with suppress(PuffinFastError):
        iceberg.delete(table, "id = 5")
    with suppress(PuffinFastError):
        iceberg.delete(table, "part = 1")


def test_a_source_id_of_a_list_is_refused_by_writers(racing: RacingCatalog) -> None:
    path = local(make(racing, 3).metadata_location)
    at = ("partition-specs", 1, "fields", 0, "source-id")
    table = load(racing, replaced(json.loads(path.read_bytes()), at, 3), path)
    with pytest.raises(
        CorruptDataError, match=r"source-id of field part: .* not a struct, list or map, found 3"
    ):
        iceberg.append(table, ROWS)


@pytest.mark.parametrize("value", [5, 2**70, [1], {"a": 1}])
def test_numbers_of_a_summary_that_are_no_texts_hide_no_rows(racing: RacingCatalog, value: Any) -> None:
    path = local(make(racing, 3).metadata_location)
    document = json.loads(path.read_bytes())
    for name in ("total-records", "total-delete-files", "total-position-deletes", "total-data-files"):
        document = replaced(document, ("snapshots", -1, "summary", name), value)
    table = load(racing, document, path)
    assert iceberg.scan(table).count() == 9
    assert iceberg.report(table) is not None
    iceberg.verify(table)
    before = table.metadata_location
    with pytest.raises(
        CorruptDataError, match=rf"{path.name}: summary of snapshot \d+: total-.* a text, found"
    ):
        iceberg.append(table, ROWS)
    assert table.refresh().metadata_location == before


def test_a_manifest_of_a_spec_that_the_table_does_not_have_is_refused(racing: RacingCatalog) -> None:
    path = local(make(racing, 2).metadata_location)
    document = json.loads(path.read_bytes())
    document["partition-specs"][1]["spec-id"] = document["default-spec-id"] = 5
    table = load(racing, document, path)
    for verb in verbs(table):
        with pytest.raises(CorruptDataError, match=r"spec.* of a manifest: expected .*found 1"):
            verb()


def test_a_schema_that_version_1_metadata_does_not_have_is_refused(racing: RacingCatalog) -> None:
    path = local(make(racing, 1).metadata_location)
    for at in (("schemas", 0, "schema-id"), ("current-schema-id",)):
        document = replaced(json.loads(path.read_bytes()), at, 7)
        original = path.read_bytes()
        with pytest.raises(PuffinFastError):
            iceberg.scan(load(racing, document, path)).count()
        path.write_bytes(original)


def test_modes_of_metrics_that_are_none_are_ignored(racing: RacingCatalog) -> None:
    """As Java's writer does."""
    path = local(make(racing, 3).metadata_location)
    document = json.loads(path.read_bytes())
    modes = {"write.metadata.metrics.default": "most", "write.metadata.metrics.column.id": "truncate(x)"}
    table = load(racing, replaced(document, ("properties",), document["properties"] | modes), path)
    iceberg.append(table, ROWS)
    assert iceberg.scan(table).count() == 19
