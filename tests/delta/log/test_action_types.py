"""Text in the log: all of it is UTF-8, without escapes, in each file of the log and after each verb."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType

from puffin_fast import delta, errors, iceberg
from puffin_fast.delta.log.action_types import as_lines
from tests.conftest import require_module
from tests.delta.tables import refused
from tests.kit.tables import delta_table, sqlite_catalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TEXT = "𠮷野家 é\u2028😀"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False, doc=f"comment {TEXT}"),
    NestedField(2, "part", StringType(), required=False),
    NestedField(3, "v", StringType(), required=False),
    NestedField(
        4, "s", StructType(NestedField(5, "𠮷", StringType(), required=False, doc=TEXT)), required=False
    ),
)
FEATURES = {
    "delta.enableRowTracking": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.checkpointInterval": "2",
    f"own {TEXT}": TEXT,
}


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {"id": ids, "part": [TEXT] * len(ids), "v": [TEXT] * len(ids), "s": [{"𠮷": TEXT}] * len(ids)}
    )


def filled(folder: Path, properties: dict[str, str]) -> Path:
    """A table with a commit of each verb."""
    every = {"snapshot_properties": {f"note {TEXT}": TEXT}}
    delta.create_table(folder, SCHEMA, partition_columns=["part"], properties=properties)
    delta.append(folder, rows(*range(20)), job_id=f"job {TEXT}", **every)
    delta.delete(folder, f"id = 1 and v = '{TEXT}'", **every)
    delta.update(folder, f"id = 2 and part = '{TEXT}'", {"v": f"{TEXT} new"}, **every)
    delta.upsert(folder, rows(3, 30), ["id", "part"], **every)
    delta.overwrite(folder, rows(40), f"id = 4 and s.𠮷 = '{TEXT}'", **every)
    with delta.transaction(folder, **every) as together:
        together.append(rows(41))
        together.delete(f"id = 5 and v like '{TEXT}%'")
    delta.rewrite_data_files(folder, min_deleted=0.01, **every)
    delta.delete(folder, "id = 6", **every)
    delta.purge(folder, min_deleted=0.001, **every)
    return folder


@pytest.mark.parametrize("mode", ["none", "name"])
def test_no_text_of_the_log_is_escaped(mode: str, tmp_path: Path, duckdb_delta: DuckDBPyConnection) -> None:
    """deltalake and DuckDB decode escaped characters from U+20000 on to other ones, and would find no row."""
    deltalake: Any = require_module("deltalake")
    properties = {
        name: value for name, value in FEATURES.items() if mode == "none" or "RowTracking" not in name
    }
    table = filled(tmp_path / "t", properties | {"delta.columnMapping.mode": mode})
    logged = [path for path in (table / "_delta_log").iterdir() if path.suffix != ".parquet"]
    texts = [path.read_bytes().decode() for path in logged]
    assert "_last_checkpoint" in {path.name for path in logged}
    assert not any("\\u" in text for text in texts)
    assert sum(text.count(f"note {TEXT}") for text in texts) == 9
    for checkpoint in (table / "_delta_log").glob("*.checkpoint.parquet"):
        assert "\\u" not in repr(pq.read_table(checkpoint).to_pylist()).replace("\\u2028", "")
    expected = sorted({*range(20), 30, 40, 41} - {1, 4, 5, 6})
    assert sorted(delta.scan(table, f"part = '{TEXT}'").to_arrow()["id"].to_pylist()) == expected
    reader = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
    for condition in (f"v >= '{TEXT}'", f"part = '{TEXT}'"):
        if mode == "name" and condition.startswith("part"):
            continue  # DuckDB 1.5 reads NULL in mapped partitions
        query = f"SELECT id FROM {{}} WHERE {condition} ORDER BY id"
        theirs = duckdb_delta.execute(query.format(f"delta_scan('{table}')")).fetchall()
        assert [row[0] for row in theirs] == expected
        assert pa.table(reader.execute(query.format("t")).read_all())["id"].to_pylist() == expected


def test_texts_of_parsed_statistics_are_not_escaped_where_they_become_json() -> None:
    from puffin_fast.delta.log.checkpoint import _plain

    found = _plain({"path": "p", "stats_parsed": {"numRecords": 1, "minValues": {TEXT: TEXT}}})
    assert found["stats"] == f'{{"numRecords":1,"minValues":{{"{TEXT}":"{TEXT}"}}}}'


HALF = "x\ud842"
NAMED = Schema(NestedField(1, HALF, LongType(), required=False))
COMMENTED = Schema(NestedField(1, "id", LongType(), required=False, doc=HALF))
DEEP = Schema(
    NestedField(1, "s", StructType(NestedField(2, "y", LongType(), required=False, doc=HALF)), required=False)
)
PLAIN = pa.schema([("id", pa.int64())])
GIVEN = pa.table({"id": [1]})
WRITES: dict[str, Callable[[Path], object]] = {
    "name of a column": lambda table: delta.create_table(table / "new", NAMED),
    "name in a mapping": lambda table: delta.create_table(table / "new", {HALF: "long"}),
    "comment": lambda table: delta.create_table(table / "new", COMMENTED),
    "nested comment": lambda table: delta.create_table(table / "new", DEEP),
    "property": lambda table: delta.create_table(table / "new", PLAIN, properties={"a": HALF}),
    "job id": lambda table: delta.append(table, GIVEN, job_id=HALF),
    "note": lambda table: delta.append(table, GIVEN, snapshot_properties={"a": HALF}),
    "name of a note": lambda table: delta.delete(table, "id = 1", snapshot_properties={HALF: "a"}),
    "note of a transaction": lambda table: delta.transaction(table, snapshot_properties={"a": HALF}),
    "note of enable": lambda table: delta.enable(table, snapshot_properties={"a": HALF}),
    "note of purge": lambda table: delta.purge(table, snapshot_properties={"a": HALF}),
    "note of rewrite": lambda table: delta.rewrite_data_files(table, snapshot_properties={"a": HALF}),
}


@pytest.mark.parametrize("what", WRITES)
def test_half_of_a_surrogate_pair_is_refused_before_anything_is_written(what: str, tmp_path: Path) -> None:
    table = delta_table(tmp_path, GIVEN)
    with refused(table, errors.InvalidInputError, r"half of a surrogate pair in 'x\\ud842'"):
        WRITES[what](table)


@pytest.mark.parametrize("schema", [NAMED, COMMENTED, DEEP, {HALF: "long"}])
def test_iceberg_tables_are_not_made_with_half_of_a_surrogate_pair(schema: Any, tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    with pytest.raises(errors.InvalidInputError, match="half of a surrogate pair"):
        iceberg.create_table(catalog, "n.t", schema)
    assert catalog.list_tables("n") == []
    catalog.engine.dispose()


def test_lines_are_utf_8_or_refused() -> None:
    assert as_lines([{"a": TEXT}]) == f'{{"a":"{TEXT}"}}\n'.encode()
    assert json.loads(as_lines([{"a": "\n\x00\\u"}])) == {"a": "\n\x00\\u"}
    with pytest.raises(errors.InvalidInputError, match=r"expected Unicode, found .*\\ud842"):
        as_lines([{"a": "b"}, {"a": HALF}])
