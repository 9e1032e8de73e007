"""Filters of texts find the same rows whether they are decided for each value of a dictionary or for each row."""

from __future__ import annotations

import random
from collections.abc import Callable
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
from puffin_fast.errors import PuffinFastError
from puffin_fast.parquet.column_pages import ColumnPages
from puffin_fast.rows.files.projection import FileSchema
from puffin_fast.rows.files.reader import DataFiles
from tests.kit.tables import table_of_files
from tests.seeds import seeds

N = 3000


class Coded:
    """How often texts were decoded to dictionary arrays, and whether they may be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.allowed, self.batches, self.failed = True, 0, 0
        coded, column = ColumnPages._coded, FileSchema.text_column

        def counted(*args: Any) -> Any:
            self.failed += 1
            found = coded(*args)
            self.failed, self.batches = self.failed - 1, self.batches + 1
            return found

        monkeypatch.setattr(ColumnPages, "_coded", counted)
        monkeypatch.setattr(FileSchema, "text_column", lambda *args: column(*args) if self.allowed else None)

    def both(self, run: Callable[[], Any]) -> list[Any]:
        """The results of a call with dictionary arrays and without, or its errors."""
        found: list[Any] = []
        for self.allowed in (True, False):
            try:
                found.append(run())
            except PuffinFastError as error:
                found.append(type(error))
        self.allowed = True
        return found


@pytest.fixture
def coded(monkeypatch: pytest.MonkeyPatch) -> Coded:
    return Coded(monkeypatch)


def texts(rng: random.Random, kind: str) -> list[Any]:
    """Texts of few or many values, with nulls: few, in runs, or all."""
    n_values = rng.choice([1, 3, 200, N])
    end = rng.choice(["", "é" * 9, "x" * 40])
    some: list[Any] = [f"{at % 7}{at:03}{end}" for at in range(n_values)] + ["", "0\0", "%", "_a"][:n_values]
    if kind == "b":
        some = [text.encode() + b"\xff" * (at % 3) for at, text in enumerate(some)]
    nulls = rng.choice([0.0, 0.0, 0.1, 0.9, 1.0])
    if rng.random() < 0.3:
        block = rng.randrange(N)
        return [None if block <= at < block + 900 else some[at * len(some) // N] for at in range(N)]
    return [None if rng.random() < nulls else rng.choice(some) for _ in range(N)]


def literal(value: Any) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return "'" + value.replace("'", "''") + "'"


def condition(rng: random.Random, columns: dict[str, list[Any]]) -> str:
    name = rng.choice([*columns])
    known = [value for value in columns[name] if value is not None] or [b"a" if name == "b" else "a"]
    some = sorted(rng.choice(known) for _ in range(rng.choice([1, 3, 50])))
    other = literal(some[0] + (b"?" if name == "b" else "?"))
    likes = [f"{name} like '1%'", f"{name} not like '%0{name}_é%'", f"{name} ilike '_0%X'"]
    return rng.choice(
        [
            f"{name} {rng.choice(['', 'not '])}in ({', '.join([other, *map(literal, some)])})",
            f"{name} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {rng.choice([other, literal(some[0])])}",
            f"{name} is {rng.choice(['', 'not '])}null",
            f"{name} between {literal(some[0])} and {literal(some[-1])}",
            *(likes if name != "b" else []),
            f"k {rng.choice(['<', '>'])} {rng.randrange(10)}",
        ]
    )


def row_filter(rng: random.Random, columns: dict[str, list[Any]]) -> str:
    text = condition(rng, columns)
    for _ in range(rng.choice([0, 1, 2])):
        text = f"({text}) {rng.choice(['and', 'and', 'or'])} {rng.choice(['', 'not '])}({condition(rng, columns)})"
    return text


def write(rng: random.Random, path: Path, rows: pa.Table) -> None:
    writer = rng.choice(["arrow", "arrow", "arrow", "duckdb", "polars", "arrow-rs"])
    if writer == "duckdb":
        with duckdb.connect() as connection:
            connection.register("rows", rows)
            connection.sql("FROM rows").write_parquet(str(path), row_group_size=rng.choice([N, 2048]))
    elif writer == "polars":
        polars.DataFrame(rows).write_parquet(path, row_group_size=rng.choice([N, 700]))
    elif writer == "arrow-rs":
        deltalake.write_deltalake(str(path.with_suffix("")), rows)
        (made,) = path.with_suffix("").glob("*.parquet")
        made.rename(path)
    else:
        pq.write_table(
            rows,
            path,
            compression=rng.choice(["zstd", "snappy", "none", "gzip"]),
            use_dictionary=rng.choice([True, True, False, ["s"]]),
            dictionary_pagesize_limit=rng.choice([1, 1000, 1 << 20]),  # then pages without the dictionary
            data_page_size=rng.choice([1, 500, 1 << 20]),
            write_batch_size=rng.choice([7, 100]),
            row_group_size=rng.choice([N, 700]),
            data_page_version=rng.choice(["1.0", "2.0"]),
            write_page_index=rng.choice([True, False]),
        )


@pytest.mark.parametrize("seed", seeds(12))
def test_filters_of_texts_find_the_same_rows(
    seed: int, tmp_path: Path, catalog: InMemoryCatalog, coded: Coded
) -> None:
    rng = random.Random(seed)
    columns = {name: texts(rng, name) for name in ("s", "u", "b")}
    kinds = {"s": pa.string(), "u": pa.large_string(), "b": pa.binary()}
    ids = pa.array(range(N), pa.int64())
    made = {name: pa.array(values, kinds[name]) for name, values in columns.items()}
    rows = pa.table({"id": ids, "k": pa.array([rng.randrange(10) for _ in range(N)]), **made})
    path = tmp_path / f"f{seed}.parquet"
    write(rng, path, rows)
    table = table_of_files(catalog, path)
    for number in range(12):
        text = row_filter(rng, columns)
        found = coded.both(lambda text=text: pf.iceberg.scan(table, row_filter=text).to_arrow())  # type: ignore[misc]
        assert found[0].schema == found[1].schema
        assert found[0].equals(found[1]), text
        assert pf.iceberg.scan(table, row_filter=text).count() == found[1].num_rows
        assert pf.iceberg.scan(table, row_filter=text, selected_fields=("s", "b")).to_arrow().equals(
            found[1].select(["s", "b"])
        )  # fmt: skip
        if number == 3:
            pf.iceberg.delete(table, f"({text}) and id % 3 = 0")
            left = coded.both(lambda: pf.iceberg.scan(table).to_arrow())
            assert left[0].equals(left[1])
            assert left[0].num_rows == N - sum(id % 3 == 0 for id in found[1]["id"].to_pylist())


def test_dictionaries_are_used_where_all_pages_have_them(
    tmp_path: Path, catalog: InMemoryCatalog, coded: Coded
) -> None:
    rows = pa.table({"id": range(N), "s": [None if at % 5 == 0 else f"text {at % 9}" for at in range(N)]})
    for name, used, options in (
        ("whole", True, {}),
        ("plain", False, {"use_dictionary": False}),
        ("mixed", None, {"dictionary_pagesize_limit": 20, "data_page_size": 100, "write_batch_size": 100}),
    ):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(rows, path, **options)
        table, coded.batches, coded.failed = table_of_files(catalog, path), 0, 0
        expected = [at for at in range(N) if at % 5 and at % 9 in (2, 8)]
        for text in ("s in ('text 2', 'text 8', 'x')", "s = 'text 2' or s like '%8'"):
            assert pf.iceberg.scan(table, row_filter=text).to_arrow()["id"].to_pylist() == expected
        if used is not None:
            assert (coded.batches > 0) == used
        coded.batches = 0
        assert pf.iceberg.scan(table, row_filter="s = 'text 2' or id < 3").count() == 3 + len(
            [at for at in range(3, N) if at % 5 and at % 9 == 2]
        )
        assert coded.batches == 0  # a condition of two columns is decided for rows


def test_pages_without_the_dictionary_are_read_in_another_way(
    tmp_path: Path, catalog: InMemoryCatalog, coded: Coded, monkeypatch: pytest.MonkeyPatch
) -> None:
    from puffin_fast.parquet.footer import Chunk

    monkeypatch.setattr(Chunk, "is_in_dictionary", None)  # as the footers of some writers leave it open
    rows = pa.table({"id": range(N), "s": [f"text {at // 3:05}" for at in range(N)]})
    path = tmp_path / "a.parquet"
    pq.write_table(rows, path, dictionary_pagesize_limit=2000, data_page_size=1000, write_batch_size=100)
    table = table_of_files(catalog, path)
    for limit in (100, 1 << 17):
        inner = DataFiles.open

        def opened(
            self: DataFiles, *args: Any, inner: Any = inner, limit: int = limit, **options: Any
        ) -> Any:
            found = inner(self, *args, **options)
            whole = type(found).batches
            monkeypatch.setattr(
                type(found), "batches", lambda self, *a, **o: whole(self, *a, **(o | {"batch_rows": limit}))
            )
            return found

        coded.failed = coded.batches = 0
        with monkeypatch.context() as patch:
            patch.setattr(DataFiles, "open", opened)
            found = pf.iceberg.scan(table, row_filter="s >= 'text 00050' and s <> 'text 00900'").to_arrow()
        assert found["id"].to_pylist() == [at for at in range(150, N) if at // 3 != 900]
        assert coded.failed > 0


@pytest.mark.slow
def test_texts_that_need_longer_offsets_than_their_type_has(
    tmp_path: Path, catalog: InMemoryCatalog, coded: Coded
) -> None:
    path, n, size = tmp_path / "a.parquet", 33, 1 << 26
    texts = pa.DictionaryArray.from_arrays([0] * n, pa.array(["x" * size]))
    pq.write_table(pa.table({"s": texts}), path, dictionary_pagesize_limit=1 << 30, store_schema=False)
    (batch,) = pf.iceberg.scan(table_of_files(catalog, path), row_filter="s is not null").to_batches()
    assert coded.batches == 1
    column = batch.column("s")
    assert column.nbytes > n * size
    assert pc.all(pc.equal(pc.binary_length(column), size)).as_py()


def test_changed_bytes_are_refused_or_have_the_same_rows(
    tmp_path: Path, catalog: InMemoryCatalog, coded: Coded
) -> None:
    """Codes outside of the dictionary above all."""
    path = tmp_path / "a.parquet"
    rng = random.Random(1)
    values = [rng.choice(["a", "bb", None, "cc", "ddddddddddddddddd"]) for _ in range(60)]
    pq.write_table(
        pa.table({"s": values}), path, compression="none", write_statistics=False, store_schema=False
    )
    table, data = table_of_files(catalog, path), path.read_bytes()
    stop = pq.read_metadata(path).row_group(0).column(0).total_compressed_size + 4
    refused = 0
    for at in range(4, stop):
        for change in (1, 0x80, 0x0F):
            path.write_bytes(data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])
            for text in ("s in ('bb', 'ddddddddddddddddd')", "s is null", "not (s = 'a')"):

                def run(text: str = text) -> list[bytes]:
                    rows = pf.iceberg.scan(table, row_filter=text).to_arrow()
                    found: list[bytes] = rows["s"].cast(pa.large_binary()).to_pylist()
                    return found

                found = coded.both(run)
                assert found[0] == found[1], (at, change, text)
                refused += isinstance(found[0], type)
    assert refused > 100
    assert coded.batches > 0
