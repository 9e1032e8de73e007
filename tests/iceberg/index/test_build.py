"""Laws of `index_keys`: segments are made, kept and merged, and statistics files with them are committed."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from puffin_fast import errors, iceberg, key_index
from puffin_fast.iceberg.index import build
from puffin_fast.iceberg.index.stored import NAME_END
from puffin_fast.puffin import PuffinReader
from tests.iceberg.conftest import add_branch
from tests.iceberg.index.indexed_tables import EACH, N, make, rows
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, path_of


def test_data_files_that_came_later_are_searched_and_then_indexed_alone(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    iceberg.append(table, rows(5000, 5100))
    assert iceberg.delete_keys(table, [3, 5003], "n").rows_deleted == 2
    index = iceberg.index_keys(table, "n")
    assert (index.data_files_read, index.segments, index.data_files) == (1, 2, N + 1)
    assert iceberg.delete_keys(table, [4, 5004], "n").rows_deleted == 2
    assert iceberg.index_keys(table, "n", dry_run=True).commit.id is None
    iceberg.index_keys(table, "n")
    assert iceberg.index_keys(table, "n").commit.id is None
    assert iceberg.index_keys(table, "n", incremental=False).data_files_read == N + 1


def test_many_segments_are_merged_and_dead_ones_leave(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema)
    for at in range(12):
        iceberg.append(table, rows(at * 10, at * 10 + 10))
        index = iceberg.index_keys(table, "n")
        assert index.segments <= build.MOST_SEGMENTS
    assert index.data_files == 12
    assert iceberg.delete_keys(table, [5, 55, 119], "n").rows_deleted == 3
    iceberg.rewrite_data_files(table, min_input_files=2)
    index = iceberg.index_keys(table, "n")
    assert (index.data_files, index.segments) == (1, 1)
    assert iceberg.delete_keys(table, [6, 56, 118], "n").rows_deleted == 3


def test_little_memory_makes_more_segments_with_the_same_rows(racing: RacingCatalog) -> None:
    table = make(racing)
    table.io.properties["puffin-fast.limit.key-index-bytes"] = str(build.ROW_BYTES * EACH)
    index = iceberg.index_keys(table, "n")
    assert (index.segments, index.data_files) == (N, N)
    assert iceberg.delete_keys(table, [5, 305, 605, 905], "n").rows_deleted == 4


def test_segments_of_little_memory_are_merged_as_long_as_their_bytes_fit(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("n", pa.int64())]))
    with iceberg.transaction(table) as transaction:
        for at in range(12):
            transaction.append(pa.table({"n": range(at * 500, at * 500 + 500)}))
    limit = {"puffin-fast.limit.key-index-bytes": str(build.ROW_BYTES * 600)}
    table.io.properties |= limit
    index = iceberg.index_keys(table, "n")
    assert 1 < index.segments < build.MOST_SEGMENTS
    monkeypatch.setattr(build, "MOST_SEGMENTS", 1)
    iceberg.append(
        table, pa.table({"n": [1 << 50]})
    )  # of more bits: others would be made anew, in more memory
    table.io.properties |= limit
    after = iceberg.index_keys(table, "n")
    assert 1 < after.segments <= index.segments + 1
    assert iceberg.verify(table, level="rows") == []
    assert iceberg.delete_keys(table, [5, 1400, 5999, 6000, 1 << 50], "n").rows_deleted == 4


def blobs(table: Table) -> list[tuple[str, tuple[int, ...], bytes]]:
    snapshot_id = table.metadata.current_snapshot_id
    (statistics,) = (s for s in table.metadata.statistics if s.snapshot_id == snapshot_id)
    with PuffinReader(path_of(statistics.statistics_path)) as reader:
        sizes = (statistics.file_size_in_bytes, statistics.file_footer_size_in_bytes)
        assert sizes == (reader.file_size, reader.footer_size)
        return [(blob.type, blob.fields, reader.stored(blob)) for blob in reader.blobs]


def test_sketches_and_segments_keep_each_other_byte_for_byte(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.collect_ndv(table, ["id", "s"])
    sketches, named = blobs(table), table.metadata.statistics[0].blob_metadata
    iceberg.index_keys(table, "n")
    assert blobs(table)[:2] == sketches
    assert table.metadata.statistics[0].blob_metadata == named
    iceberg.index_keys(table, "s")
    assert [blob[:2] for blob in blobs(table)[2:]] == [
        (key_index.BLOB_TYPE, (16,)),
        (key_index.BLOB_TYPE, (12,)),
    ]
    before = blobs(table)[2:]
    iceberg.collect_ndv(table, ["day"])
    assert [blob for blob in blobs(table) if blob[0] == key_index.BLOB_TYPE] == before
    assert set(sketches) < set(blobs(table))
    assert table.metadata.statistics[0].statistics_path.endswith(NAME_END)
    assert iceberg.ndv(table)["column"].to_pylist() == ["id", "day", "s"]
    assert iceberg.index_keys(table, "n").commit.id is None


def test_the_metadata_names_no_blob_that_pyiceberg_does_not_know(racing: RacingCatalog) -> None:
    iceberg.index_keys(make(racing), "n")
    again = racing.load_table("n.t")
    assert [statistics.blob_metadata for statistics in again.metadata.statistics] == [[]]
    assert again.scan().to_arrow().num_rows == N * EACH


def test_statistics_that_are_committed_meanwhile_are_kept(racing: RacingCatalog) -> None:
    table = make(racing)
    racing.before.append(lambda: iceberg.collect_ndv(racing.load_table("n.t"), ["id"]))
    iceberg.index_keys(table, "n")
    assert [kind for kind, *_ in blobs(table)] == ["apache-datasketches-theta-v1", key_index.BLOB_TYPE]
    racing.before.append(lambda: iceberg.index_keys(racing.load_table("n.t"), "s"))
    iceberg.collect_ndv(table, ["s"])
    assert sorted(fields for kind, fields, _ in blobs(table) if kind == key_index.BLOB_TYPE) == [(12,), (16,)]


def test_a_dry_run_and_a_failed_commit_leave_nothing(racing: RacingCatalog) -> None:
    table = make(racing)
    before = files_of(table)
    planned = iceberg.index_keys(table, "n", dry_run=True)
    assert (planned.data_files_left, planned.commit.id is not None, planned.dry_run) == (N, False, True)
    assert files_of(table) == before

    def fail() -> None:
        raise KeyboardInterrupt

    racing.before.append(fail)
    with pytest.raises(KeyboardInterrupt):
        iceberg.index_keys(table, "n")
    left = files_of(table) - before
    assert all(path.name.endswith((NAME_END, ".metadata.json")) for path in left)
    assert iceberg.delete_keys(table, [5], "n").rows_deleted == 1


def test_an_index_whose_snapshot_expired_costs_time_only(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    iceberg.append(table, rows(5000, 5010))
    iceberg.expire_snapshots(table, older_than=datetime.timedelta(0), retain_last=1)
    assert table.metadata.statistics == []
    assert iceberg.delete_keys(table, [5, 5005], "n").rows_deleted == 2
    assert iceberg.index_keys(table, "n").data_files_read == N + 1


def test_a_branch_has_an_index_of_its_own(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    add_branch(table, "b")
    iceberg.append(table, rows(5000, 5010), branch="b")
    index = iceberg.index_keys(table, "n", branch="b")
    assert (index.data_files_read, index.data_files) == (1, N + 1)
    assert iceberg.delete_keys(table, [5, 5005], "n", branch="b").rows_deleted == 2
    assert iceberg.delete_keys(table, [5, 5005], "n").rows_deleted == 1


def test_what_cannot_be_indexed_is_refused(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema)
    with pytest.raises(errors.NotFoundError, match="no snapshots"):
        iceberg.index_keys(table, "n")
    iceberg.append(table, rows(0, 10))
    with pytest.raises(errors.NotFoundError, match="no column m"):
        iceberg.index_keys(table, "m")
    with pytest.raises(errors.InvalidInputError, match="no identifier fields"):
        iceberg.index_keys(table)
    with pytest.raises(errors.InvalidInputError, match="expected a primitive type"):
        iceberg.index_keys(table, "point")


def test_values_of_the_partition_are_not_indexed(racing: RacingCatalog) -> None:
    schema = pa.schema([("p", pa.int64()), ("n", pa.int64())])
    table = iceberg.create_table(racing, "n.parts", schema, partition_spec=["p"])
    iceberg.append(table, pa.table({"p": [1] * 5, "n": range(5)}))
    (task,) = table.scan().plan_files()
    path = path_of(task.file.file_path)
    pq.write_table(pq.read_table(path).select(["n"]), path)
    result = iceberg.index_keys(table, "p")
    assert (result.segments, result.data_files_left) == (0, 1)
    assert "values of its partition" in result.notes[0]
    assert iceberg.delete_keys(table, [1], "p").rows_deleted == 5
