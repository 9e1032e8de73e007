"""Rows whose exact keys are indexed are replaced unread."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.rows.files.reader import DataFiles
from tests.iceberg.conftest import rows_of
from tests.iceberg.index.indexed_tables import DAY, EACH, UTC, N
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table


def with_ids(table: Table, *names: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        iceberg.scan(table, selected_fields=[*names, "_row_id"]).to_arrow().sort_by("_row_id").to_pylist()
    )
    return found


@pytest.mark.parametrize("version", [2, 3])
def test_rows_whose_exact_keys_are_indexed_are_replaced_unread(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    schema = pa.schema([("n", pa.int64()), ("v", pa.string())])
    parts = [pa.table([range(at * EACH, (at + 1) * EACH), ["old"] * EACH], schema=schema) for at in range(N)]
    pair = [iceberg_table(racing, parts, name=name, version=version) for name in ("n.t", "n.plain")]
    for table in pair:
        iceberg.delete_keys(table, [3, 700], "n")
    iceberg.index_keys(pair[0], "n")

    def upsert(round: int, keys: list[int]) -> None:
        given = pa.table({"n": keys, "v": [f"round {round}"] * len(keys)}, schema=schema)
        found = []
        for table in pair:
            with monkeypatch.context() as patch:
                if table is pair[0] and round == 0:
                    patch.setattr(DataFiles, "open", None)
                result = iceberg.upsert(table, given, "n", skip_unchanged=False)
            found.append((result.rows_updated, result.rows_inserted))
        assert found[0] == found[1]

    upsert(0, [2, 3, 4, 700, 701, 5000])
    iceberg.index_keys(pair[0], "n")  # covers files that store row ids
    upsert(1, [4, 5, 3, 701, 900, 6000])
    upsert(2, [5, 4, 902])  # of files that the index does not cover, too
    assert iceberg.verify(pair[0], level="rows") == []
    if version == 3:
        assert with_ids(pair[0], "n", "v") == with_ids(pair[1], "n", "v")
    assert rows_of(pair[0], order="n").equals(rows_of(pair[1], order="n"))


EXACT = {
    "bool": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [-(2**31), -1, 0, 7, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), -(2**40), 5, 2**63 - 1]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)]),
    "time": (pa.time64("us"), [datetime.time(0, 0), DAY.time()]),
    "timestamp": (pa.timestamp("us"), [DAY, datetime.datetime(1900, 1, 1)]),
    "timestamptz": (pa.timestamp("us", "UTC"), [DAY.replace(tzinfo=UTC)]),
    "decimal": (pa.decimal128(12, 2), [Decimal("-9.99"), Decimal("1234567890.12")]),
}


@pytest.mark.parametrize("name", EXACT)
def test_rows_of_each_exact_type_are_replaced_as_without_an_index(racing: RacingCatalog, name: str) -> None:
    kind, values = EXACT[name]
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    given = pa.table([values, range(len(values))], schema=schema)
    pair = [iceberg_table(racing, given, name=name) for name in ("n.t", "n.plain")]
    iceberg.index_keys(pair[0], "k")
    for table in pair:
        given = pa.table({"k": values, "v": [-at for at in range(len(values))]}, schema=schema)
        assert iceberg.upsert(table, given, "k", skip_unchanged=False).rows_updated == len(values)
    assert with_ids(pair[0], "k", "v") == with_ids(pair[1], "k", "v")
