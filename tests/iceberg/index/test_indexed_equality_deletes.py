"""Equality deletes of tables with a key index."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from puffin_fast import iceberg
from tests.iceberg.index.indexed_tables import rows_live
from tests.kit.faults import RacingCatalog
from tests.rows.deletes.equality_deletes import FIELDS, delete_equal


def test_rows_of_equality_deletes_stay_deleted(racing: RacingCatalog) -> None:
    schema = pa.schema([(FIELDS[id].name, pa.int64() if id == 1 else pa.string()) for id in (1,)])
    table = iceberg.create_table(racing, "n.t", schema)
    name = FIELDS[1].name
    iceberg.append(table, pa.table({name: range(500)}))
    iceberg.index_keys(table, name)
    delete_equal(table, [1], [(7,)])
    table.refresh()
    assert iceberg.scan(table, f"{name} = 7").count() == 0
    assert iceberg.delete_keys(table, [7, 8], name).rows_deleted == 1


@pytest.mark.parametrize("indexed", [[1], [2], [1, 2]])
def test_equality_deletes_are_converted_as_without_an_index(
    racing: RacingCatalog, looked_up: list[int], indexed: list[int]
) -> None:
    tables = []
    for name in ("n.t", "n.plain"):
        table = iceberg.create_table(racing, name, Schema(*(FIELDS[id] for id in (1, 2))))
        kinds = table.schema().as_arrow()
        for at in range(4):
            values = [[None if i % 9 == 4 else i % 70 for i in range(at * 50, at * 50 + 50)] for _ in kinds]
            arrays = [pa.array(column).cast(field.type) for column, field in zip(values, kinds, strict=True)]
            iceberg.append(table, pa.table(arrays, schema=kinds))
        if name == "n.t":
            for id in indexed:
                iceberg.index_keys(table, FIELDS[id].name)
        (firsts, texts) = (
            pa.array(values).cast(field.type).to_pylist()
            for values, field in zip(([3, 11, 60], [3, 68, 5]), kinds, strict=True)
        )
        delete_equal(table, [1], [(first,) for first in firsts[:2]])
        delete_equal(table.refresh(), [2], [(text,) for text in texts[1:]] + [(None,)])
        delete_equal(table.refresh(), [1, 2], [(firsts[0], texts[0])])
        table.refresh()
        tables.append(table)
    before = [rows_live(table) for table in tables]
    results = [iceberg.convert_equality_deletes(table) for table in tables]
    assert results[0].equality_delete_files_removed == results[1].equality_delete_files_removed == 3
    assert [rows_live(table) for table in tables] == before
    assert before[0] == before[1]
    assert bool(looked_up)


@pytest.mark.parametrize("rewritten", [False, True])
def test_a_key_that_came_back_after_its_equality_delete_stays(
    racing: RacingCatalog, opened: list[Any], rewritten: bool
) -> None:
    table = iceberg.create_table(racing, "n.t", Schema(FIELDS[1], FIELDS[3]))
    for deleted in (7, 9):
        for some in (range(50), range(50, 100)):
            iceberg.append(table, pa.table({"id": some, "s": [f"before {deleted}"] * 50}))
        if rewritten:  # so that the data file stores row ids
            iceberg.rewrite_data_files(table, f"s = 'before {deleted}'", min_input_files=2)
        delete_equal(table, [1], [(deleted,)])
        table.refresh()
    iceberg.index_keys(table, "id")
    before = rows_live(table)
    opened.clear()
    iceberg.convert_equality_deletes(table)
    assert len(opened) == rewritten
    assert rows_live(table) == before
    assert {"id": 7, "s": "before 9"} in before


def test_a_conversion_of_equality_deletes_knows_the_places_of_pages(
    racing: RacingCatalog, opened: list[tuple[str, Any]]
) -> None:
    schema = Schema(*(FIELDS[id] for id in (1, 2, 3)))
    table = iceberg.create_table(racing, "n.t", schema)
    values = [range(5000), pa.array(range(5000), pa.int32()), [f"key {number}" for number in range(5000)]]
    iceberg.append(table, pa.table(values, names=["id", "k", "s"]))
    iceberg.index_keys(table, "s")
    delete_equal(table, [3], [("key 7",), ("key 4900",)])
    table.refresh()
    opened.clear()
    assert iceberg.convert_equality_deletes(table).rows_deleted == 2
    ((_, (chunk,)),) = opened
    assert sum(chunk[3::2]) == 5000  # the rows of its data pages
