"""Position-delete files: small ones are not opened by PyArrow, and every order of their rows is read."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast.errors import CorruptDataError, NotFoundError
from puffin_fast.iceberg.manifest import ADDED, DATA, POSITION_DELETES, ManifestEntry
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.rows.deletes import position_files
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.position_files import read_position_deletes
from puffin_fast.rows.files.parquet import ParquetReader
from puffin_fast.rows.shared_deletes import DeleteFiles, SharedDeletes

IO = PyArrowFileIO()
LONG = "s3://bucket/warehouse/table/data/00000-{:04d}-0a1b2c3d-1234-4567-89ab-abcdef012345.parquet"


def written(path: Path, paths: Any, positions: Any, **options: Any) -> ManifestEntry:
    rows = pa.table({"file_path": pa.array(paths, pa.string()), "pos": pa.array(positions, pa.int64())})
    pq.write_table(rows, path, **{"compression": "zstd", **options})
    n_bytes = path.stat().st_size
    return ManifestEntry(
        ADDED, None, None, None, POSITION_DELETES, str(path), "PARQUET", 0, (), len(rows), n_bytes
    )


def positions_in(entry: ManifestEntry) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for batch in read_position_deletes(IO, entry):
        for path, positions in batch.items():
            found[path] |= set(positions)
    return found


@pytest.mark.parametrize("name", [LONG, "f{}", "file-{:08d}", "{}/é"], ids=["long", "short", "12 bytes", "é"])
@pytest.mark.parametrize("order", ["sorted", "shuffled", "few runs"])
@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_positions_of_each_path_are_found_in_every_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, order: str, dictionary: bool
) -> None:
    monkeypatch.setattr(position_files, "MOST_RUNS", 40)
    monkeypatch.setattr(position_files, "BATCH_ROWS", 700)
    random = np.random.default_rng(7)
    numbers, positions = random.integers(0, 30, 2000), random.integers(0, 1 << 33, 2000)
    if order != "shuffled":
        numbers.sort()
    if order == "few runs":
        numbers = np.concatenate((numbers[1000:], numbers[:1000], numbers[500:700]))
        positions = np.concatenate((positions, positions[:200]))
    paths = [name.format(number) for number in numbers.tolist()]
    expected: dict[str, set[int]] = defaultdict(set)
    for path, position in zip(paths, positions.tolist(), strict=True):
        expected[path].add(position)
    entry = written(
        tmp_path / "d", paths, positions, use_dictionary=dictionary, row_group_size=1500, data_page_size=4000
    )
    assert positions_in(entry) == expected


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4", "zstd", "brotli"])
def test_small_files_of_one_layout_are_opened_by_pyarrow_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    opened = []
    open_with_arrow = ParquetReader._open_with_arrow
    monkeypatch.setattr(
        ParquetReader,
        "_open_with_arrow",
        lambda self, *args, **options: opened.append(self) or open_with_arrow(self, *args, **options),
    )
    for at in range(20):
        paths = [LONG.format(at), LONG.format(at + 1)]
        entry = written(tmp_path / f"{codec}{at}", paths, [at, 3], compression=codec)
        assert positions_in(entry) == {paths[0]: {at}, paths[1]: {3}}
    assert len(opened) <= (20 if codec == "brotli" else 1)


@pytest.mark.parametrize(
    ("paths", "positions", "message"),
    [
        (["a", None], [1, 2], "file_path: row 1 is null"),
        (["a", "a"], [1, None], "pos: row 1 is null"),
        (["a", "b"], [1, -2], "-2"),
    ],
    ids=["path", "position", "negative"],
)
def test_rows_that_are_no_deletes_are_damage(
    tmp_path: Path, paths: list[Any], positions: list[Any], message: str
) -> None:
    entry = written(tmp_path / "d", paths, positions)
    with pytest.raises(CorruptDataError, match=message) as caught:
        positions_in(entry)
    assert caught.value.path == entry.file_path


def test_a_path_that_is_not_utf8_is_damage(tmp_path: Path) -> None:
    entry = written(tmp_path / "d", ["abcd", "abcd"], [1, 2], compression="none", use_dictionary=False)
    (tmp_path / "d").write_bytes((tmp_path / "d").read_bytes().replace(b"abcd", b"ab\xff\xfe"))
    with pytest.raises(CorruptDataError, match="utf-8"):
        positions_in(entry)


def test_a_delete_file_that_cannot_be_read_fails_only_the_data_files_that_need_it(tmp_path: Path) -> None:
    """Delete files that other data files need are read ahead."""
    good = written(tmp_path / "good", ["a", "b"], [0, 1])
    lost = written(tmp_path / "lost", ["b", "c"], [2, 0])
    last = written(tmp_path / "last", ["c", "d"], [2, 0])
    (tmp_path / "lost").unlink()
    lists = [SharedDeletes([entry]) for entry in (good, lost, last)]
    for one in lists:
        one.others = lists
    data = {
        path: FileTask(
            ManifestEntry(ADDED, None, None, None, DATA, path, "PARQUET", 0, (), 5, 100),
            None,
            DeleteFiles([(lists[at], 0), (lists[at + 1], 0)] if at < 2 else [(lists[2], 0)]),
        )
        for at, path in enumerate("bcd")
    }
    data["a"] = FileTask(
        ManifestEntry(ADDED, None, None, None, DATA, "a", "PARQUET", 0, (), 5, 100),
        None,
        DeleteFiles([(lists[0], 0)]),
    )
    loader = DeleteLoader(IO)
    assert list(loader.of(data["a"])) == [0]
    for path in ("b", "c", "b"):
        with pytest.raises(NotFoundError, match="lost"):
            loader.of(data[path])
    assert list(loader.of(data["d"])) == [0]
    assert list(loader.of(data["a"])) == [0]
