"""Words of other engines in table metadata, which the specification leaves open: read, and kept by commits."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from puffin_fast import PuffinWriter, iceberg
from tests.kit.faults import RacingCatalog
from tests.kit.tables import path_of

Document = dict[str, Any]


def hive_statistics(document: Document, folder: Path) -> None:
    """What Hive 4 adds: a blob of its own type."""
    head = document["snapshots"][-1]
    path = folder / "hive.stats"
    with PuffinWriter(path, overwrite=True) as writer:
        writer.add(b"\1", type="ColumnStatisticsObj", fields=[1], snapshot_id=head["snapshot-id"])
        writer.finish()
        footer = writer.footer_size
    blob = {
        "type": "ColumnStatisticsObj",
        "snapshot-id": head["snapshot-id"],
        "sequence-number": head["sequence-number"],
        "fields": [1],
        "properties": {},
        "engine": "hive",
    }
    entry = {
        "snapshot-id": head["snapshot-id"],
        "statistics-path": f"file://{path}",
        "file-size-in-bytes": path.stat().st_size,
        "file-footer-size-in-bytes": footer,
        "blob-metadata": [blob],
    }
    document["statistics"] = [entry]


def partition_statistics(document: Document, folder: Path) -> None:
    path = folder / "partitions.parquet"
    path.write_bytes(b"PAR1")
    head = document["snapshots"][-1]["snapshot-id"]
    document["partition-statistics"] = [
        {"snapshot-id": head, "statistics-path": f"file://{path}", "file-size-in-bytes": 4}
    ]
    hive_statistics(document, folder)


def operation(document: Document, folder: Path) -> None:
    document["snapshots"][0]["summary"]["operation"] = "clustering"


def reference(document: Document, folder: Path) -> None:
    document["refs"]["first"] = {"snapshot-id": document["snapshots"][0]["snapshot-id"], "type": "TAG"}


def order(document: Document, folder: Path) -> None:
    field = {"transform": "identity", "source-id": 1, "direction": "DESC", "null-order": "NULLS-LAST"}
    document["sort-orders"].append({"order-id": 1, "fields": [field]})


KEPT: dict[Callable[[Document, Path], None], tuple[str, ...]] = {
    hive_statistics: ("statistics",),
    partition_statistics: ("statistics", "partition-statistics"),
    operation: (),
    reference: (),
    order: ("sort-orders",),
}


def changed(table: Table, change: Callable[[Document, Path], None]) -> Document:
    """Another engine's commit: the catalog has the changed document afterwards."""
    current = path_of(table.metadata_location.replace("file:/", "file:///", 1))
    document, folder = json.loads(current.read_text()), current.parent
    change(document, folder)
    log = document.setdefault("metadata-log", [])
    log.append({"metadata-file": table.metadata_location, "timestamp-ms": document["last-updated-ms"]})
    path = folder / "00099-other-engine.metadata.json"
    path.write_text(json.dumps(document))
    result: Document = copy.deepcopy(document)
    return result


VERBS: dict[str, Callable[[Table], Any]] = {
    "delete": lambda t: iceberg.delete(t, "id = 1"),
    "append": lambda t: iceberg.append(t, pa.table({"id": [9]})),
    "maintain": iceberg.maintain,
    "collect_ndv": iceberg.collect_ndv,
    "index_keys": lambda t: iceberg.index_keys(t, "id"),
    "expire_snapshots": lambda t: iceberg.expire_snapshots(t, snapshot_ids=[]),
}


@pytest.mark.parametrize("change", KEPT, ids=lambda change: str(change.__name__))
@pytest.mark.parametrize("version", [2, 3])
def test_commits_keep_what_other_engines_wrote(
    racing: RacingCatalog, change: Callable[[Document, Path], None], version: int
) -> None:
    table = racing.create_table("n.t", pa.schema([("id", pa.int64())]))
    if version == 3:
        iceberg.upgrade(table)
    iceberg.append(table, pa.table({"id": [1, 2]}))
    iceberg.append(table, pa.table({"id": [3]}))
    document = changed(table, change)
    path = f"{table.location()}/metadata/00099-other-engine.metadata.json"
    assert iceberg.scan(path.removeprefix("file://")).count() == 3
    assert list(iceberg.verify(path.removeprefix("file://"))) == []
    racing.drop_table("n.t")
    table = racing.register_table("n.t", path)
    assert iceberg.scan(iceberg.load_table(racing, "n.t")).count() == 3
    for verb in ("delete", "append", "maintain"):
        VERBS[verb](table)
    latest = json.loads(path_of(iceberg.load_table(racing, "n.t").metadata_location).read_text())
    for name in KEPT[change]:
        kept = latest[name]
        if version == 2:  # written by PyIceberg
            for entry in document.get("statistics", []):
                entry["blob-metadata"][0].pop("engine", None)
        expected = document[name]
        if name == "sort-orders" and version == 2:
            kept, expected = json.loads(json.dumps(kept).lower()), json.loads(json.dumps(expected).lower())
        assert kept == expected
    if change is operation:
        assert latest["snapshots"][0]["summary"]["operation"] == "clustering"
    if change is reference:
        assert latest["refs"]["first"]["type"].lower() == "tag"


@pytest.mark.parametrize("verb", ["collect_ndv", "index_keys", "expire_snapshots"])
def test_verbs_of_statistics_work_beside_blobs_of_other_types(racing: RacingCatalog, verb: str) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": [1, 2]}))
    changed(table, hive_statistics)
    racing.drop_table("n.t")
    table = racing.register_table("n.t", f"{table.location()}/metadata/00099-other-engine.metadata.json")
    VERBS[verb](table)
    assert list(iceberg.verify(table)) == []
    assert iceberg.delete(table, "id = 1").rows_deleted == 1
    assert iceberg.ndv(table) is not None


def test_a_process_that_only_loads_by_name_reads_them(racing: RacingCatalog, tmp_path: Path) -> None:
    """The words are opened in a process of its own: nothing else has parsed such metadata before."""
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": [1, 2]}))
    changed(table, hive_statistics)
    path = f"{table.location()}/metadata/00099-other-engine.metadata.json".removeprefix("file://")
    code = f"import puffin_fast as pf; print(pf.iceberg.scan({path!r}).count())"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "2\n"
    )


def test_a_rest_catalog_loads_them(rest_catalog: RestCatalog, rest_namespace: str) -> None:
    table = iceberg.create_table(rest_catalog, f"{rest_namespace}.t", pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": [1, 2]}))
    changed(table, hive_statistics)
    path = f"{table.location()}/metadata/00099-other-engine.metadata.json"
    rest_catalog.drop_table(f"{rest_namespace}.t")
    table = rest_catalog.register_table(f"{rest_namespace}.t", path)
    assert iceberg.delete(table, "id = 1").rows_deleted == 1
    (entry,) = iceberg.load_table(rest_catalog, f"{rest_namespace}.t").metadata.statistics
    assert entry.blob_metadata[0].type == "ColumnStatisticsObj"
