"""Page indexes, Bloom filters and dictionary pages that are changed: files are refused, or have the same rows.

``PUFFIN_FAST_MUTATIONS`` says how many changes are tried. What a bound or a bit of a filter says is not covered by a
checksum: a changed one may leave out rows, and how often is counted. Everything else about them changes nothing.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import PuffinFastError
from puffin_fast.parquet import column_chunks
from puffin_fast.parquet.footer import Footer
from puffin_fast.rows.files.parquet import ParquetReader
from tests.kit.seeds import seeds

N_MUTATIONS = int(os.environ.get("PUFFIN_FAST_MUTATIONS", "150"))
N = 2_000
PLACES = ("column index", "offset index", "Bloom filter", "dictionary")


class Place(NamedTuple):
    """Bytes of a file that are changed: of what, and their first one and number."""

    kind: str
    start: int
    n_bytes: int


@pytest.fixture
def table(tmp_path: Path) -> Iterator[tuple[Table, Path]]:
    rng = np.random.default_rng(5)
    numbers = np.arange(N) * 3
    rows = pa.table(
        {
            "id": numbers,
            "text": [f"{number:08}" for number in numbers],
            "code": pa.array(rng.integers(0, 40, N) * 2, mask=rng.random(N) < 0.1),
            "word": [f"word {at}" for at in rng.integers(0, 30, N) * 2],
            "x": rng.random(N),
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(
        rows,
        path,
        use_dictionary=["code", "word"],
        write_page_index=True,
        write_batch_size=50,
        data_page_size=400,
        bloom_filter_options={"id": {"ndv": N, "fpp": 0.01}, "text": {"ndv": N, "fpp": 0.01}},
        compression="none",
    )
    with (
        InMemoryCatalog("c", warehouse=f"file://{tmp_path}") as catalog,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(column_chunks, "LEAST_PICKED", 0)
        catalog.create_namespace("n")
        found = catalog.create_table("n.t", schema=rows.schema, properties={"format-version": "2"})
        found.add_files([f"file://{path}"])
        yield found, path


def places(path: Path) -> list[Place]:
    reader, found = ParquetReader(PyArrowFileIO(), str(path)), []
    for name in ("id", "text", "code", "word"):
        chunk = reader.chunk(0, name)
        spans = [(chunk.bounds, chunk.bounds_bytes), (chunk.offsets, chunk.offsets_bytes)]
        if chunk.bloom > 0:
            bloom_bytes = chunk.bloom_bytes if chunk.bloom_bytes > 0 else 64
            spans.append((chunk.bloom, bloom_bytes))
        found += [Place(kind, *span) for kind, span in zip(PLACES, spans, strict=False)]
        if chunk.dictionary_bytes:
            found.append(Place("dictionary", chunk.start, chunk.dictionary_bytes))
    assert {place.kind for place in found} == set(PLACES)
    return found


def mutated(rng: random.Random, data: bytes, place: Place) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = place.start + min(rng.randrange(place.n_bytes), rng.choice([place.n_bytes - 1, 40]))
        changed[at] = rng.choice([changed[at] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 255])
    return bytes(changed)


def row_filter(rng: random.Random) -> str:
    number = rng.randrange(N) * 3 + rng.choice([0, 0, 1])
    return rng.choice(
        [
            f"id = {number}",
            f"id in ({number}, {number + 3}, {number + 600})",
            f"id between {number} and {number + 30}",
            f"text = '{number:08}'",
            f"text < '{number:08}'",
            f"code = {rng.randrange(80)}",
            f"code is null and id < {number}",
            f"word = 'word {rng.randrange(60)}' and id > {number}",
        ]
    )


def outcome(table: Table, text: str) -> list[dict[str, Any]] | None:
    """The rows of a filter; None if the file is refused."""
    try:
        found = iceberg.scan(table, text).to_arrow()
    except PuffinFastError:
        return None
    texts = {name: found[name].cast(pa.large_binary()) for name in ("text", "word")}  # perhaps not UTF-8
    return [
        dict(zip(found.schema.names, row, strict=True))
        for row in zip(
            *((texts[name] if name in texts else found[name]).to_pylist() for name in found.schema.names),
            strict=True,
        )
    ]


def in_full(table: Table, text: str) -> list[dict[str, Any]] | None:
    """The same without page indexes, Bloom filters and dictionaries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_chunks, "LEAST_PICKED", 1 << 60)
        patch.setattr(Footer, "has_bloom_filters", False)  # no file is then left out, and asked in one call
        patch.setattr(ParquetReader, "has_dictionaries", False)
        return outcome(table, text)


@pytest.mark.parametrize("seed", seeds(1))
def test_changed_indexes_are_refused_or_have_the_same_rows(
    table: tuple[Table, Path], record_property: Any, seed: int
) -> None:
    opened, path = table
    whole, rng, every = path.read_bytes(), random.Random(seed), places(path)
    found: Counter[tuple[str, str]] = Counter()
    for number in range(N_MUTATIONS):
        place, text = every[number % len(every)], row_filter(rng)
        path.write_bytes(mutated(rng, whole, place))
        expected, rows = in_full(opened, text), outcome(opened, text)
        result = "refused" if rows is None else "the same" if rows == expected else "other"
        if result == "other" and expected is None:  # what is wrong is in a page that is not needed
            path.write_bytes(whole)
            result = "the same" if rows == in_full(opened, text) else "other"
        found[place.kind, result] += 1
        if result == "other":
            assert place.kind in ("column index", "Bloom filter"), (number, place, text)
            assert expected is not None
            assert rows is not None
            assert all(row in expected for row in rows), (
                number,
                place,
                text,
            )  # rows are left out, never changed
    for (kind, result), n in sorted(found.items()):
        record_property(f"{kind}, {result}", n)
        print(f"{kind}: {result}: {n}")
    n_other = sum(n for (_, result), n in found.items() if result == "other")
    assert n_other <= max(N_MUTATIONS // 20, 3)
    assert sum(n for (_, result), n in found.items() if result == "the same") > N_MUTATIONS // 2


def test_the_indexes_are_used(table: tuple[Table, Path]) -> None:
    opened, _ = table
    for text, step in (
        ("id = 3001", "Bloom filters"),
        ("code = 3", "dictionaries"),
        ("id between 30 and 60", "page index"),
    ):
        assert iceberg.scan(opened, text).explain()[step].rows
