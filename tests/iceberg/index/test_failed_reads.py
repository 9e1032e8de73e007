"""A key index that cannot be read while it is kept costs time, never rows; messages name the file that failed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from puffin_fast import errors, iceberg
from puffin_fast._io.source import Source
from puffin_fast.iceberg.index import build
from puffin_fast.puffin import PuffinReader
from tests.iceberg.conftest import refused
from tests.iceberg.index.indexed_tables import lookup_cache_cleared, rows
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, path_of


class FailingReads:
    """Counts the reads of statistics files, and fails some.

    Args:
        monkeypatch: undoes it.
        first: the number of the first read that fails.
        for_good: whether those after it fail, too.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: int, for_good: bool) -> None:
        self.n, self.failed = 0, set[str]()
        read_ranges = Source.read_ranges

        def counted(source: Source, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
            if str(source.path).endswith(".stats"):
                self.n += 1
                if self.n == first + 1 or (for_good and self.n > first):
                    self.failed.add(Path(str(source.path)).name)
                    raise OSError(5, "Input/output error")
            yield from read_ranges(source, ranges)

        monkeypatch.setattr(Source, "read_ranges", counted)


def indexed_thrice(catalog: RacingCatalog) -> Table:
    """A table with three segments, sketches of the newest snapshot, and a data file without an index."""
    table = iceberg.create_table(catalog, "n.t", rows(0, 1).schema)
    for at in range(3):
        iceberg.append(table, rows(at * 40, at * 40 + 40))
        iceberg.index_keys(table, "n")
    iceberg.append(table, rows(120, 160))
    iceberg.collect_ndv(table, ["s"])
    return table


@pytest.mark.parametrize("for_good", [False, True], ids=["one read", "all reads from one on"])
@pytest.mark.parametrize("most", [1, 8], ids=["merged", "kept"])
def test_each_failed_read_of_an_index_costs_time_only(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, most: int, for_good: bool
) -> None:
    made = indexed_thrice(racing)
    monkeypatch.setattr(build, "MOST_SEGMENTS", most)
    monkeypatch.setattr(build, "FEW_SEGMENTS", most)
    n_failed, n_raised, first = 0, 0, 0
    while True:
        racing.drop_table("n.t")
        table = racing.register_table("n.t", made.metadata_location)
        lookup_cache_cleared()
        before = files_of(table)
        with monkeypatch.context() as patch:
            reads = FailingReads(patch, first, for_good)
            index, raised = None, ""
            try:
                index = iceberg.index_keys(table, "n")
            except errors.PuffinFastError as error:
                raised = str(error)
        if not reads.failed:
            break
        first += 1
        if index is None:  # a segment was sound, and could not be copied
            n_raised += 1
            assert any(name in raised for name in reads.failed)
            assert files_of(table) == before
            continue
        n_failed += 1
        assert index.notes
        assert all(any(name in note for name in reads.failed) for note in index.notes)
        assert "temporary" not in "".join(index.notes)
        assert (index.data_files, index.data_files_left) == (4, 0)
        assert iceberg.verify(table, level="rows") == []
        assert iceberg.delete_keys(table, [5, 45, 85, 125, 999], "n", dry_run=True).rows_deleted == 4
    assert n_failed > 6
    assert (n_raised > 0) == (most > 1)
    assert index is not None
    assert (index.data_files_read, index.segments, index.notes) == (1, 1 if most == 1 else 4, ())
    with PuffinReader(path_of(str(index.statistics_path))) as reader:
        assert len(reader.blobs) == 1 + index.segments  # with the sketch


def test_a_sketch_that_cannot_be_copied_is_named(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = indexed_thrice(racing)
    sketches = Path(table.metadata.statistics[-1].statistics_path).name
    read_ranges = Source.read_ranges

    def failing(source: Source, ranges: Any) -> Iterator[tuple[int, bytes]]:
        if str(source.path).endswith(sketches):
            raise OSError(5, "Input/output error")
        return read_ranges(source, ranges)

    monkeypatch.setattr(Source, "read_ranges", failing)
    index = iceberg.index_keys(table, "n")
    (note,) = index.notes
    assert sketches in note
    assert "its other blobs are not kept: " in note
    assert index.data_files == 4
    (known,) = (s for s in table.metadata.statistics if s.statistics_path == index.statistics_path)
    assert known.blob_metadata == []  # names no blob that the file does not have


def test_a_temporary_file_that_cannot_be_written_is_named_so(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = indexed_thrice(racing)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with refused(table, errors.PuffinFastError, "temporary file"):
        iceberg.index_keys(table, "n")
