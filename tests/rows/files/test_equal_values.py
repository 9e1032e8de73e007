"""Bloom filters leave out row groups, and dictionaries decide texts, where equality and IN are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import puffin_fast as pf
from puffin_fast.parquet.column_pages import ColumnPages
from puffin_fast.rows.files.reader import DataFiles
from tests.kit.tables import table_of_files
from tests.rows.files.random_files import literal


def text(number: int) -> str:
    return f"{number:05}" + "é" * (number % 11)


class Used:
    """How many row groups were excluded by their values, and how many batches of texts were dictionary arrays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.without = self.coded = 0
        groups, coded = DataFiles._row_groups, ColumnPages._coded

        def excluding(*args: Any) -> Any:
            found = groups(*args)
            self.without += len(found[2])
            return found

        def counted(*args: Any) -> Any:
            found = coded(*args)
            self.coded += 1
            return found

        monkeypatch.setattr(DataFiles, "_row_groups", excluding)
        monkeypatch.setattr(ColumnPages, "_coded", counted)


N = 4000


@pytest.mark.parametrize("name", ["both", "dictionary", "filter"])
def test_filters_exclude_row_groups_and_the_others_are_decided_by_dictionaries(
    name: str, tmp_path: Path, catalog: InMemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {10: text(0), 20: text(9998)}  # so that bounds exclude nothing
    values = [
        None if at % 7 == 0 else ends.get(at % 1000, text(at // 1000 * 1000 + at % 500 * 2))
        for at in range(N)
    ]
    options: dict[str, Any] = {"use_dictionary": name != "filter"}
    if name != "dictionary":  # those of this size are not asked for values
        options["bloom_filter_options"] = {"s": {"ndv": 1000, "fpp": 0.001}}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(N), "s": values}), path, row_group_size=1000, **options)
    table = table_of_files(catalog, path)
    for wanted in ([text(2240)], [text(2206), text(2280)]):
        shown = " or ".join(f"s = {literal(value)}" for value in wanted)
        for row_filter in (
            f"s in ({', '.join(map(literal, [*wanted, text(1)]))})",
            f"({shown}) and id > 5",
        ):
            with monkeypatch.context() as patch:
                seen = Used(patch)
                found = pf.iceberg.scan(table, row_filter=row_filter).to_arrow()
            assert found["s"].to_pylist() == [value for value in values if value in wanted]
            if row_filter.startswith("s in") or len(wanted) == 1:
                assert (seen.without >= 2) is (name != "dictionary")
            assert (seen.coded > 0) is (name != "filter")
