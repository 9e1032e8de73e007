"""Data files and position-delete files that declare wrong sizes, or are damaged."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from puffin_fast import iceberg
from puffin_fast._io import open_source
from puffin_fast.errors import CorruptDataError, LimitExceededError, UnsupportedError
from puffin_fast.parquet.footer import check_footer
from tests.fuzz import table_targets
from tests.fuzz.mutations import mutated
from tests.hostile.conftest import N_ROWS, HostileTable
from tests.kit.tables import iceberg_table, path_of, sqlite_catalog

POSITION_FIELDS = pa.schema(
    [
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
    ]
)
ENTRY = """
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.iceberg.manifest import ManifestEntry

def entry(path, n_rows, content=1):
    return ManifestEntry(
        status=1, snapshot_id=1, sequence_number=1, file_sequence_number=1, content=content, file_path=path,
        file_format="PARQUET", spec_id=0, partition=(), record_count=n_rows, file_size_in_bytes=1,
    )

io = pyiceberg.io.pyarrow.PyArrowFileIO()
read = lambda: DeleteLoader(io).by_files("f", [entry(path, n_rows)])
"""


def position_deletes(path: Path, positions: pa.Array, n_groups: int) -> int:
    """A file that deletes the same positions of "f" in each of many row groups; returns its number of rows."""
    batch = pa.record_batch(
        [pa.repeat(pa.scalar("f"), len(positions)).dictionary_encode(), positions],
        pa.schema(
            [POSITION_FIELDS.field(0).with_type(pa.dictionary(pa.int32(), pa.string())), POSITION_FIELDS[1]]
        ),
    )
    options = {"compression": "zstd", "store_schema": False, "use_dictionary": ["file_path"]}
    with pq.ParquetWriter(
        path, batch.schema, column_encoding={"pos": "DELTA_BINARY_PACKED"}, **options
    ) as writer:
        for _ in range(n_groups):
            writer.write_batch(batch, row_group_size=len(positions))
    return n_groups * len(positions)


def test_position_deletes_are_read_in_batches(tmp_path: Path, confined: Callable[..., int]) -> None:
    """60 million rows in less than half a megabyte."""
    n_rows = position_deletes(tmp_path / "d.parquet", pa.array(np.arange(1 << 20)), 60)
    assert (tmp_path / "d.parquet").stat().st_size < 1 << 19
    action = "assert len(read()) == 1 << 20"
    confined(action, setup=ENTRY, limit_mib=384, path=str(tmp_path / "d.parquet"), n_rows=n_rows)


def test_position_deletes_that_become_large_bitmaps_are_refused(
    tmp_path: Path, confined: Callable[..., int]
) -> None:
    """A position in each chunk: 20 bytes of bitmap from less than a bit of the file."""
    n_rows = position_deletes(tmp_path / "d.parquet", pa.array(np.arange(1 << 20) << 16), 1)
    action = """
from puffin_fast.limits import POSITION_DELETE_BYTES
assert len(read()) == n_rows
io = pyiceberg.io.pyarrow.PyArrowFileIO({POSITION_DELETE_BYTES.key: "1000000"})
refuses(errors.LimitExceededError, read, path)
"""
    confined(action, setup=ENTRY, limit_mib=384, path=str(tmp_path / "d.parquet"), n_rows=n_rows)


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (pa.table({"file_path": ["f", None], "pos": [1, 2]}), "row 1 is null"),
        (pa.table({"file_path": ["f", "f"], "pos": [1, -2]}), "-2"),
        (pa.table({"file_path": ["f", "f"], "pos": ["1", "2"]}), "expected integers"),
        (pa.table({"file_path": [b"f", b"f"], "pos": [1, 2]}), "expected strings"),
        (pa.table({"file_path": ["f", "f"], "position": [1, 2]}), "pos"),
        (pa.table({"file_path": ["f"], "pos": [1]}), "expected 2 (manifest), found 1"),
    ],
)
def test_errors_about_position_deletes_name_their_file(
    tmp_path: Path, confined: Callable[..., int], table: pa.Table, found: str
) -> None:
    pq.write_table(table, tmp_path / "d.parquet")
    action = "refuses(errors.CorruptDataError, read, path, found)"
    confined(action, setup=ENTRY, limit_mib=256, path=str(tmp_path / "d.parquet"), n_rows=2, found=found)


@pytest.mark.parametrize("hostile", ["2", "3"], indirect=True)
def test_errors_about_positions_name_the_delete_file(
    hostile: HostileTable, confined: Callable[..., int]
) -> None:
    """The data file has fewer rows than before, and so does its manifest entry."""
    action = """
from dataclasses import replace
from puffin_fast.rows.deletes.loader import DeleteLoader
(task,) = iceberg.plan_files(StaticTable.from_metadata(metadata)).tasks
shorter = replace(task, data=replace(task.data, record_count=12))
error = refuses(errors.CorruptDataError, lambda: DeleteLoader(io).of(shorter), delete_file, data_file)
assert error.path.endswith(delete_file)
"""
    confined(
        action,
        setup="io = pyiceberg.io.pyarrow.PyArrowFileIO()",
        limit_mib=256,
        metadata=hostile.metadata,
        delete_file=hostile.delete_file.name,
        data_file=hostile.data_file.name,
    )


def test_memory_follows_from_the_rows_that_are_read_not_from_those_that_are_claimed(
    confined: Callable[..., int],
) -> None:
    action = """
from puffin_fast.columns.row_selection import LiveRows
deleted = PositionBitmap.from_positions([5, 70_000, (1 << 34) - 2])
live = LiveRows(deleted, 1 << 34)
assert live.slice(0, 131_072).to_pylist() == [row not in (5, 70_000) for row in range(131_072)]
assert live.slice((1 << 34) - 3, 5).to_pylist() == [True, False, True]
assert live.count(69_999, 2) == 1 and live.count(0, 1 << 34) == (1 << 34) - 3 and live.count(6, 5) == 5
"""
    assert confined(action, limit_mib=64) < 16


def test_a_data_file_that_claims_many_rows_is_refused_when_it_holds_fewer(
    hostile: HostileTable, confined: Callable[..., int]
) -> None:
    """2^34 rows in footer and manifest, under a vector."""
    footer_rows = 1 << 34
    action = """
scan = iceberg.scan(StaticTable.from_metadata(metadata))
scan.tasks()[0].data.record_count = n_rows
refuses(errors.CorruptDataError, scan.to_arrow, data_file)
"""
    data = hostile.data_file.read_bytes()
    hostile.data_file.write_bytes(with_rows(data, footer_rows))
    assert pq.read_metadata(hostile.data_file).num_rows == footer_rows
    confined(
        action,
        limit_mib=512,
        metadata=hostile.metadata,
        n_rows=footer_rows,
        data_file=hostile.data_file.name,
    )


def with_rows(data: bytes, n_rows: int) -> bytes:
    """A Parquet file whose footer claims another number of rows: Thrift's compact varints of i64."""
    size = int.from_bytes(data[-8:-4], "little")
    head, footer = data[: -8 - size], data[-8 - size : -8]
    old, new = _zigzag(N_ROWS), _zigzag(n_rows)
    footer = footer.replace(b"\x16" + old, b"\x16" + new)
    return head + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _zigzag(value: int) -> bytes:
    value, found = value << 1, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


@pytest.mark.parametrize("hostile", ["3"], indirect=True)
def test_a_sparse_file_that_states_a_long_footer_is_refused_before_it_is_read(
    hostile: HostileTable, confined: Callable[..., int]
) -> None:
    with hostile.data_file.open("wb") as file:
        file.truncate((20 << 30) - 8)
        file.seek(0, os.SEEK_END)
        file.write((1 << 30).to_bytes(4, "little") + b"PAR1")
    action = """
table = StaticTable.from_metadata(metadata)
refuses(errors.CorruptDataError, lambda: iceberg.scan(table).to_arrow(), path, "Parquet footer: expected fields")
"""
    path, metadata = str(hostile.data_file), hostile.metadata
    assert confined(action, limit_mib=512, path=path, metadata=metadata) < 64


@pytest.mark.parametrize("hostile", ["2", "3"], indirect=True)
def test_a_pipe_in_place_of_a_file_is_refused(hostile: HostileTable, confined: Callable[..., int]) -> None:
    action = """
table = StaticTable.from_metadata(metadata)
refuses(errors.InvalidInputError, lambda: iceberg.scan(table).to_arrow(), "regular file")
assert any(path in str(finding) for finding in iceberg.verify(table))
"""
    for path in (hostile.data_file, hostile.delete_file):
        kept = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        confined(action, limit_mib=256, metadata=hostile.metadata, path=path.name)
        path.unlink()
        path.write_bytes(kept)


N_MUTATIONS = 150


def damaged_page(data: bytes) -> bytes:
    """A Parquet file with a page header that is no Thrift."""
    return data[:4] + b"\xff" * 16 + data[20:]


def test_verify_reports_the_files_after_one_with_a_damaged_page(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = iceberg_table(catalog, pa.schema([("id", pa.int64())]), version=2)
    for first in (0, 10, 20):
        iceberg.append(table, pa.table({"id": range(first, first + 10)}))
        iceberg.delete(table, f"id = {first + 5}")
    tasks = sorted(iceberg.plan_files(table).tasks, key=lambda task: task.data.sequence_number or 0)
    first, second, third = ((task.data, *task.position_deletes) for task in tasks)
    for entry in (first[1], third[1]):
        path = path_of(entry.file_path)
        path.write_bytes(damaged_page(path.read_bytes()))
    found = iceberg.verify(table)
    assert {(finding.kind, finding.data_file, finding.path) for finding in found} == {
        ("corrupt", data.file_path, deletes.file_path) for data, deletes in (first, third)
    }
    with pytest.raises(CorruptDataError, match=r"-deletes\.parquet: offset 4: pages of column file_path"):
        iceberg.scan(table).to_arrow()
    path = path_of(second[0].file_path)
    path.write_bytes(path.read_bytes()[:-8] + b"\xff" * 8)  # also a data file, by its footer
    assert {finding.path for finding in iceberg.verify(table)} == {
        first[1].file_path,
        second[0].file_path,
        third[1].file_path,
    }
    catalog.engine.dispose()


@pytest.mark.parametrize("target", ["data_file", "position_deletes"])
def test_mutated_parquet_files_give_an_error_with_their_path_or_rows(target: str) -> None:
    """`make mutate` runs more of them; an error of PyArrow, or one without a path, fails here."""
    choose = random.Random(20)
    own = table_targets.own_file(target)
    refused = []
    for _ in range(N_MUTATIONS):
        data = mutated(own, choose)
        with table_targets.in_place(target, data) as (path, metadata):
            table = StaticTable.from_metadata(metadata)
            try:
                iceberg.scan(table).to_arrow()
            except (CorruptDataError, UnsupportedError, LimitExceededError) as error:
                refused.append(str(error))
            findings = iceberg.verify(table)
        assert all(path.name in message for message in refused[-1:])
        assert all(path.name in finding.path for finding in findings)
    assert len(refused) > N_MUTATIONS // 2


FOOTERS = """
import random
from tests.fuzz.mutations import mutated
from tests.kit.tables import iceberg_table, path_of, sqlite_catalog

rows = pa.table({"id": range(100), "s": [f"{n % 7}" for n in range(100)], "f": [n / 2 for n in range(100)]})
catalog = sqlite_catalog(folder)
table = iceberg_table(catalog, rows, version=2, properties={"write.parquet.row-group-limit": "30"})
path = path_of(iceberg.plan_files(table).tasks[0].data.file_path)
own = path.read_bytes()
footer = len(own) - 8 - int.from_bytes(own[-8:-4], "little")
"""


def test_a_damaged_footer_does_not_end_the_process(tmp_path: Path, confined: Callable[..., int]) -> None:
    """PyArrow's objects of column chunks raise C++ exceptions that nothing catches."""
    action = """
choose, refused = random.Random(3), 0
for at in range(150):
    found = own[footer:-8]
    if at:  # one after another: the fields of a footer are near each other
        found = mutated(found, choose)
    path.write_bytes(own[:footer] + found + len(found).to_bytes(4, "little") + b"PAR1")
    filtered = iceberg.scan(table, "id > 50 and s != '1' and f > 3")
    for read in (filtered.to_arrow, lambda: iceberg.verify(table)):
        try:
            read()
        except errors.PuffinFastError as error:
            refused += 1
            assert path.name in str(error), error
assert refused > 50, refused
"""
    confined(action, limit_mib=1024, setup=FOOTERS, folder=str(tmp_path))


def damaged_chunks() -> dict[str, tuple[bytes, bytes]]:
    """Thrift fields of a column chunk of int64, and damaged ones of the same length."""
    return {
        "type": (b"\x15\x04\x19", b"\x15\x02\x19"),
        "codec": (b"\x15\x02\x16", b"\x15\x7e\x16"),
    }


@pytest.mark.parametrize("name", damaged_chunks())
def test_a_column_chunk_that_contradicts_its_schema_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": pa.array(range(9), pa.int64())}), path, compression="snappy")
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    with open_source(str(path)) as source:
        check_footer(pq.read_metadata(path), source, str(path))
    before, after = damaged_chunks()[name]
    at = data.rindex(before, start)
    path.write_bytes(data[:at] + after + data[at + len(after) :])
    with (
        open_source(str(path)) as source,
        pytest.raises(CorruptDataError, match=rf"{path}: column chunks of a Parquet footer"),
    ):
        check_footer(pq.read_metadata(path), source, str(path))
