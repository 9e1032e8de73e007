"""Equality and IN of texts find the rows of a full decode, with Bloom filters, dictionaries, both or neither."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import puffin_fast as pf
from puffin_fast.parquet.column_pages import ColumnPages
from puffin_fast.rows.files.reader import DataFiles
from tests.kit.tables import table_of_files
from tests.seeds import seeds

N, TEXTS = 4000, ("s", "u", "b")
TYPES = {"s": pa.string(), "u": pa.large_string(), "b": pa.binary()}


def text(number: int, name: str) -> Any:
    """Texts of even numbers are stored; those of odd ones are between them."""
    found = f"{number:05}" + "é" * (number % 11)
    return found.encode() + b"\xff" if name == "b" else found


def texts(rng: random.Random, name: str) -> pa.Array:
    """Few or many texts, all over the rows or next to each other, with nulls."""
    n_values, nulls = rng.choice([1, 3, 40, 700, N]), rng.choice([0, 0, 0.1, 0.9, 1])
    numbers = [2 * rng.randrange(n_values) for _ in range(N)]
    if rng.random() < 0.5:
        numbers.sort()
    return pa.array([None if rng.random() < nulls else text(n, name) for n in numbers], TYPES[name])


def write(rng: random.Random, path: Path, rows: pa.Table) -> None:
    group = rng.choice([N, 2048, 700])
    filters = [name for name in TEXTS if rng.random() < 0.8]
    match rng.choice(["arrow", "arrow", "arrow", "duckdb", "arrow-rs", "polars"]):
        case "duckdb":  # makes filters of column chunks with a dictionary
            with duckdb.connect() as connection:
                connection.register("rows", rows)
                connection.execute(
                    f"COPY rows TO '{path}' (ROW_GROUP_SIZE 2048, BLOOM_FILTER_FALSE_POSITIVE_RATIO 0.01,"
                    f" DICTIONARY_SIZE_LIMIT {rng.choice([1, 50, 100_000])})"
                )
        case "arrow-rs":
            some = deltalake.BloomFilterProperties(True, fpp=rng.choice([0.01, 0.5]), ndv=rng.choice([1, N]))
            each = deltalake.ColumnProperties(
                bloom_filter_properties=some, dictionary_enabled=rng.choice([True, False])
            )
            properties = deltalake.WriterProperties(
                default_column_properties=each,
                max_row_group_size=group,
                dictionary_page_size_limit=rng.choice([100, 1 << 20]),
                data_page_size_limit=rng.choice([500, 1 << 20]),
            )
            deltalake.write_deltalake(str(path.with_suffix("")), rows, writer_properties=properties)
            (made,) = path.with_suffix("").glob("*.parquet")
            made.rename(path)
        case "polars":  # has no filters
            polars.DataFrame(rows).write_parquet(path, row_group_size=group)
        case _:
            pq.write_table(
                rows,
                path,
                row_group_size=group,
                bloom_filter_options={
                    name: {"ndv": rng.choice([1, 50, N]), "fpp": rng.choice([0.01, 0.5])} for name in filters
                },
                compression=rng.choice(["zstd", "snappy", "none"]),
                use_dictionary=rng.choice([True, True, False, ["s"]]),
                dictionary_pagesize_limit=rng.choice([1, 1000, 1 << 20]),  # then pages without the dictionary
                data_page_size=rng.choice([100, 1 << 20]),
                write_batch_size=rng.choice([7, 100]),
                data_page_version=rng.choice(["1.0", "2.0"]),
                write_page_index=rng.choice([True, False]),
                write_statistics=rng.choice([True, True, False]),
            )


def literal(value: Any) -> str:
    return f"X'{value.hex()}'" if isinstance(value, bytes) else f"'{value}'"


def equality(rng: random.Random, rows: pa.Table) -> tuple[str, pa.Array]:
    """A condition of one column, and for which rows it is true, false or unknown."""
    name, n_values = rng.choice(TEXTS), rng.choice([1, 1, 2, 9, 200, 3000])
    highest = rng.choice([6, 100, 2 * N])
    parity = rng.choice([0, 1, 1, None])
    numbers = {rng.randrange(highest) for _ in range(n_values)}
    values = [text(n if parity is None else n // 2 * 2 + parity, name) for n in sorted(numbers)]
    column = rows[name].combine_chunks()
    found = pc.is_in(column, value_set=pa.array(values, column.type))
    found = pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))
    if len(values) == 1:
        return f"{name} = {literal(values[0])}", found
    return f"{name} in ({', '.join(map(literal, values))})", found


def condition(rng: random.Random, rows: pa.Table) -> tuple[str, pa.Array]:
    shown, found = equality(rng, rows)
    for _ in range(rng.choice([0, 0, 1, 2])):
        other, those = equality(rng, rows)
        word = rng.choice(["and", "and", "or"])
        shown = f"({shown}) {word} ({other})"
        found = pc.and_kleene(found, those) if word == "and" else pc.or_kleene(found, those)
    if rng.random() < 0.15:
        return f"not ({shown})", pc.invert(found)
    return shown, found


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


@pytest.mark.parametrize("seed", seeds(24))
def test_equality_and_in_find_the_rows_of_a_full_decode(
    seed: int, tmp_path: Path, catalog: InMemoryCatalog
) -> None:
    rng, path = random.Random(seed), tmp_path / f"f{seed}.parquet"
    rows = pa.table({"id": pa.array(range(N), pa.int64()), **{name: texts(rng, name) for name in TEXTS}})
    write(rng, path, rows)
    stored = pq.ParquetFile(path).read()
    assert stored.cast(rows.schema).equals(rows)
    table, deleted = table_of_files(catalog, path), pa.array([False] * N)
    for number in range(16):
        shown, matches = condition(rng, rows)
        wanted = pc.and_not(pc.fill_null(matches, False), deleted)
        expected, scan = rows.filter(wanted), pf.iceberg.scan(table, row_filter=shown)
        assert scan.to_arrow().cast(rows.schema).equals(expected), shown
        assert scan.count() == expected.num_rows, shown
        some = ("id", rng.choice(TEXTS))
        found = pf.iceberg.scan(table, row_filter=shown, selected_fields=some, string_views=True).to_arrow()
        assert found.cast(rows.select(some).schema).equals(expected.select(some)), shown
        if number in (5, 10):
            pf.iceberg.delete(table, f"({shown}) and id % 3 <> 1")
            gone = pc.and_(wanted, pa.array([at % 3 != 1 for at in range(N)]))
            deleted = pc.or_(deleted, gone)
            assert pf.iceberg.scan(table).count() == N - pc.sum(deleted).as_py()


@pytest.mark.parametrize("name", ["both", "dictionary", "filter"])
def test_filters_exclude_row_groups_and_the_others_are_decided_by_dictionaries(
    name: str, tmp_path: Path, catalog: InMemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {10: text(0, "s"), 20: text(9998, "s")}  # so that bounds exclude nothing
    values = [
        None if at % 7 == 0 else ends.get(at % 1000, text(at // 1000 * 1000 + at % 500 * 2, "s"))
        for at in range(N)
    ]
    options: dict[str, Any] = {"use_dictionary": name != "filter"}
    if name != "dictionary":  # those of this size are not asked for values
        options["bloom_filter_options"] = {"s": {"ndv": 1000, "fpp": 0.001}}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(N), "s": values}), path, row_group_size=1000, **options)
    table = table_of_files(catalog, path)
    for wanted in ([text(2240, "s")], [text(2206, "s"), text(2280, "s")]):
        shown = " or ".join(f"s = {literal(value)}" for value in wanted)
        for row_filter in (
            f"s in ({', '.join(map(literal, [*wanted, text(1, 's')]))})",
            f"({shown}) and id > 5",
        ):
            with monkeypatch.context() as patch:
                seen = Used(patch)
                found = pf.iceberg.scan(table, row_filter=row_filter).to_arrow()
            assert found["s"].to_pylist() == [value for value in values if value in wanted]
            if row_filter.startswith("s in") or len(wanted) == 1:
                assert (seen.without >= 2) is (name != "dictionary")
            assert (seen.coded > 0) is (name != "filter")
