"""`verify` and `orphan_files` of Delta tables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, dv, errors
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.delta.log.checkpoint_writer import write_checkpoint
from puffin_fast.delta.log.storage import storage_of
from tests.delta.tables import Golden, alter, ids, remove_commits
from tests.kit.tables import delta_table

NOW = timedelta(days=-1)
"""Every file is older than tomorrow."""


def test_right_tables_have_no_problem(table: Path) -> None:
    assert delta.verify(table) == []
    assert delta.verify(table, level="metadata", snapshot_id=0) == []
    delta.delete(table, "id < 30")
    assert delta.verify(table) == []


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda add: add.update(stats='{"numRecords":99}'), "numRecords: expected 100"),
        (lambda add: add.pop("stats"), "numRecords: expected a number"),
        (lambda add: add.update(size=5), "size: expected"),
        (lambda add: add.update(path="part=p%200/gone.parquet"), "no such file"),
    ],
)
def test_what_is_wrong_is_said(
    edit: Callable[[dict[str, Any]], object], message: str, partitioned: Path
) -> None:
    alter(partitioned, "add", edit, 3)
    assert any(message in problem.message for problem in delta.verify(partitioned))


def test_torn_vectors_and_positions_past_the_end_are_said(golden: Golden) -> None:
    table = golden("spark_partitioned")
    for file in table.glob("*.bin"):
        data = bytearray(file.read_bytes())
        data[30] ^= 1
        file.write_bytes(data)
    found = delta.verify(table)
    assert found
    assert all("CRC-32" in problem.message for problem in found)
    table = golden("hand_inline")
    text, size = dv.delta.encode_inline(PositionBitmap.from_positions([5, 5000]))
    wrong = {"pathOrInlineDv": text, "sizeInBytes": size, "cardinality": 2}
    alter(table, "add", lambda add: add["deletionVector"].update(wrong), 2)
    (problem,) = delta.verify(table)
    assert "found 5000" in problem.message


@pytest.mark.parametrize("n_rows", [0, 39])
def test_a_footer_with_other_rows_than_its_row_groups_is_a_problem(n_rows: int, tmp_path: Path) -> None:
    path = delta_table(tmp_path, {"id": range(40)})
    (file,) = path.glob("*.parquet")
    pq.write_table(pq.read_table(file), file, row_group_size=20)
    data, stated = file.read_bytes(), b"\x16\x50\x19\x2c"  # 40 rows, two row groups
    assert data.count(stated) == 1
    file.write_bytes(data.replace(stated, bytes([0x16, 2 * n_rows, 0x19, 0x2C])))
    log = path / "_delta_log" / f"{1:020}.json"
    text = re.sub(r'"size":\d+', f'"size":{len(data)}', log.read_text())
    log.write_text(text.replace('numRecords\\":40', f'numRecords\\":{n_rows}'))
    assert pq.ParquetFile(file).metadata.num_rows == n_rows
    (problem,) = delta.verify(path)
    assert problem.kind == "corrupt"
    assert f"rows of all row groups: expected {n_rows}, found 40" in problem.message
    with pytest.raises(errors.CorruptDataError, match="rows of all row groups"):
        delta.scan(path).to_arrow()


def test_a_live_vector_file_is_no_orphan(table: Path) -> None:
    delta.delete(table, "id >= 100 and id < 150")
    assert delta.orphan_files(table, older_than=NOW).num_rows == 0


def test_orphans_are_what_no_version_names(golden: Golden) -> None:
    table = golden("spark_v1_checkpoint")
    orphan = table / "deletion_vector_orphan.bin"
    for path in (orphan, table / "part=p 0" / "lost.parquet", table / "_hidden" / "x", table / ".tmp"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"\1")
    inner = table / "inner" / "_delta_log" / f"{0:020d}.json"
    inner.parent.mkdir(parents=True)
    inner.write_text("{}")
    (table / "inner" / "data.parquet").write_bytes(b"")
    found = delta.orphan_files(table, older_than=NOW)["path"].to_pylist()
    assert found == sorted([str(orphan), str(table / "part=p 0" / "lost.parquet")])
    assert delta.orphan_files(table).num_rows == 0


def test_files_of_the_change_data_feed_are_orphans_when_no_commit_has_them(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "part": ["a", "b c"]})
    table = delta_table(tmp_path, rows, partition=["part"], properties={"delta.enableChangeDataFeed": "true"})
    delta.update(table, "id > 0", {"id": 3})
    files = sorted(map(str, table.glob("_change_data/**/*.parquet")))
    assert files
    assert delta.orphan_files(table, older_than=NOW).num_rows == 0
    lost = table / "_change_data" / "part=a" / "lost.parquet"
    lost.write_bytes(b"")
    assert delta.orphan_files(table, older_than=NOW)["path"].to_pylist() == [str(lost)]
    write_checkpoint(storage_of(table), 2)
    remove_commits(table, range(3))
    assert delta.orphan_files(table, older_than=NOW)["path"].to_pylist() == sorted([*files, str(lost)])


def test_files_of_removed_rows_are_needed_while_the_log_has_them(partitioned: Path) -> None:
    delta.delete(partitioned, "id >= 0")
    assert delta.orphan_files(partitioned, older_than=NOW).num_rows == 0
    assert delta.scan(partitioned, snapshot_id=3).to_arrow().num_rows == 257


def test_orphans_are_removed_only_on_request(partitioned: Path) -> None:
    orphan = partitioned / "part=p 0" / "lost.parquet"
    orphan.write_bytes(b"12345")
    before = [delta.scan(partitioned, snapshot_id=version).count() for version in range(4)]
    os.utime(orphan, (0, 0))
    asked = delta.remove_orphan_files(partitioned)
    assert (asked.files["path"].to_pylist(), asked.n_bytes, asked.dry_run) == ([str(orphan)], 5, True)
    assert orphan.exists()
    done = delta.remove_orphan_files(partitioned, dry_run=False)
    assert done.files.equals(asked.files)
    assert not done.not_removed
    assert not orphan.exists()
    assert [delta.scan(partitioned, snapshot_id=version).count() for version in range(4)] == before
    with pytest.raises(errors.InvalidInputError, match="not negative"):
        delta.remove_orphan_files(partitioned, older_than=NOW)


def test_maintain_rewrites_and_cleans(partitioned: Path) -> None:
    rows = ids(partitioned)
    orphan = partitioned / "lost.parquet"
    orphan.write_bytes(b"12345")
    os.utime(orphan, (0, 0))
    policy = delta.MaintenancePolicy(min_deleted=0, min_input_files=2)
    asked = delta.maintain(partitioned, policy, dry_run=True)
    assert orphan.exists()
    done = delta.maintain(partitioned, policy)
    assert asked.data_files
    assert done.data_files
    assert done.orphan_files
    assert asked.data_files.data_files == done.data_files.data_files > 0
    assert done.orphan_files.files["path"].to_pylist() == [str(orphan)]
    assert ids(partitioned) == rows
    only = delta.maintain(partitioned, delta.MaintenancePolicy(steps=("clean",)))
    assert only.data_files is None
    with pytest.raises(errors.UnsupportedError, match="tables of Delta have no compact"):
        delta.maintain(partitioned, delta.MaintenancePolicy(steps=("clean", "compact")))


def test_deletes_lists_what_vectors_reads(table: Path) -> None:
    listed, read = delta.deletes(table), delta.vectors(table)
    assert listed["data_file"].to_pylist() == read["file_path"].to_pylist()
    assert listed["deleted"].to_pylist() == read["cardinality"].to_pylist()
    assert listed["rows"].to_pylist() == read["n_rows"].to_pylist()
    for row in listed.to_pylist():
        assert row["kind"] == "vector"
        assert row["share"] == row["deleted"] / row["rows"]
        assert (row["path"] is None) == (row["offset"] is None)
        assert row["path"] is None or Path(row["path"]).exists()
