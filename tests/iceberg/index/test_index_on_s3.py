"""An index of keys on an object store (S3 by moto) costs few requests and bytes, beside those of a run without it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.iceberg.index import segment_maker, stored
from puffin_fast.parquet import column_chunks
from tests.kit.object_store import Store, catalog, store

__all__ = ["catalog", "store"]

FILES, ROWS = 8, 50_000


class Cost(NamedTuple):
    """Requests for parts of objects, and the bytes that were sent: of the statistics file, and of data files."""

    index_requests: int
    index_bytes: int
    data_requests: int
    data_bytes: int


def cost_of(store: Store) -> Cost:
    reads = [request for request in store.requests if request.method == "GET"]
    index = [request for request in reads if request.path.endswith(stored.NAME_END)]
    data = [request for request in reads if request.path.endswith(".parquet")]
    store.requests.clear()
    counts = [(len(some), sum(r.stop - r.start for r in some)) for some in (index, data)]
    return Cost(*counts[0], *counts[1])


@pytest.fixture
def tables(catalog: SqlCatalog) -> tuple[Table, Table]:
    """Two tables with the same 400,000 rows; both keys lie anywhere. One has indexes of them."""
    catalog.create_namespace_if_not_exists("keys")
    order = np.random.default_rng(7).permutation(FILES * ROWS)
    rows = pa.table({"id": order, "s": pa.array(np.char.add("customer ", order.astype(str)))})
    found = []
    for name in ("keys.indexed", "keys.plain"):
        if catalog.table_exists(name):
            catalog.drop_table(name)
        table = iceberg.create_table(catalog, name, rows.schema)
        for at in range(FILES):
            iceberg.append(table, rows.slice(at * ROWS, ROWS))
        found.append(table)
    iceberg.index_keys(found[0], "id")
    iceberg.index_keys(found[0], "s")
    stored._known.clear()
    return found[0], found[1]


def test_a_lookup_reads_the_head_of_the_index_once_and_then_blocks(
    tables: tuple[Table, Table], store: Store
) -> None:
    indexed, plain = tables
    size = indexed.metadata.statistics[0].file_size_in_bytes
    keys = [5, 17_000, 399_999, 10**9]
    costs = []
    for one in (indexed, indexed, plain):
        store.requests.clear()
        assert iceberg.delete_keys(one, keys, "id", dry_run=True).rows_deleted == 3
        costs.append(cost_of(store))
    first, again, without = costs
    assert again.index_requests <= 1 + len(keys)  # the footer, and a block for each key
    assert again.index_bytes < 100_000 < size
    assert first.index_requests <= 4 + again.index_requests
    assert first.index_bytes < size / 4
    assert (first.data_requests, again.data_requests) == (0, 0)  # entries are exact
    assert without.data_requests >= FILES
    assert without.data_bytes > 20 * again.index_bytes


def test_rows_that_a_hash_names_are_read_from_their_data_files_only(
    tables: tuple[Table, Table], store: Store
) -> None:
    indexed, plain = tables
    costs = []
    for one in (indexed, plain):
        store.requests.clear()
        assert iceberg.scan(one, "s in ('customer 5', 'nobody')").count() == 1
        costs.append(cost_of(store))
    with_index, without = costs
    assert with_index.data_requests <= 3  # the footer, a page and the dictionary of one data file
    assert with_index.data_bytes < without.data_bytes / (FILES - 1)


def test_only_pages_that_have_a_row_are_read(
    catalog: SqlCatalog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files without offset indexes, as most writers make them."""
    monkeypatch.setattr(column_chunks, "has_several", lambda _: False)
    catalog.create_namespace_if_not_exists("keys")
    order = np.random.default_rng(7).permutation(200_000)
    rows = pa.table({"s": pa.array(np.char.add("a customer of the shop ", order.astype(str)))})
    table = iceberg.create_table(catalog, "keys.pages", rows.schema)
    iceberg.append(table, rows)
    for places in (True, False):
        store.requests.clear()
        if places:
            iceberg.index_keys(table, "s")
            building = cost_of(store)
        else:
            build_without_places(table)
        stored._known.clear()
        store.requests.clear()
        keys = ["a customer of the shop 7", "a customer of the shop 199999", "nobody"]
        assert iceberg.delete_keys(table, keys, "s", dry_run=True).rows_deleted == 2
        cost = cost_of(store)
        if places:
            with_places = cost
    assert building.data_requests <= 3  # of the footer and the column: places cost none
    assert with_places.data_requests <= 2 + 3
    assert with_places.data_bytes < cost.data_bytes / 2


def build_without_places(table: Table) -> None:
    """An index as it is where the places of pages are not known."""
    inner = segment_maker.key_words

    def words(*args: Any) -> segment_maker.FileKeys | None:
        found = inner(*args)
        return None if found is None else found._replace(pages=[])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_maker, "key_words", words)
        iceberg.index_keys(table, "s", incremental=False)


def test_many_keys_read_the_blocks_of_a_segment_together(tables: tuple[Table, Table], store: Store) -> None:
    indexed, plain = tables
    keys = pa.table({"id": range(0, FILES * ROWS, 20)})
    for one in (indexed, plain):
        store.requests.clear()
        assert iceberg.delete_keys(one, keys, "id", dry_run=True).rows_deleted == len(keys)
        if one is indexed:
            size = one.metadata.statistics[0].file_size_in_bytes
            found = cost_of(store)
    assert found.index_requests <= 8
    assert found.index_bytes < size * 1.1
    assert found.data_requests == 0
    assert found.index_bytes < cost_of(store).data_bytes
