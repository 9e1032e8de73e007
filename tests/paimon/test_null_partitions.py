"""Null partitions: Java and pypaimon write different bytes, and Java finds a vector only by those of its data file."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from puffin_fast import errors, paimon
from tests.paimon.tables import append, ids, newest_snapshot, rewrite, rows_of, state, write

pytestmark = pytest.mark.pypaimon

NAME = "app_null_part"


def entries(path: Path) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(path.read_bytes())))  # type: ignore[arg-type]


def partitions_of_files(table: Path) -> dict[str, bytes]:
    """The partition of each data file, in the bytes of the manifests of the newest snapshot."""
    snapshot = json.loads(newest_snapshot(table).read_text())
    lists = [
        entries(table / "manifest" / snapshot[name]) for name in ("baseManifestList", "deltaManifestList")
    ]
    return {
        entry["_FILE"]["_FILE_NAME"]: entry["_PARTITION"]
        for manifest in lists[0] + lists[1]
        for entry in entries(table / "manifest" / manifest["_FILE_NAME"])
    }


def check_partitions(table: Path) -> int:
    """Checks that each vector is in the partition of its data file, byte by byte; returns the number of vectors."""
    expected, found = partitions_of_files(table), paimon.vectors(table)
    for file, partition in zip(found["file_name"].to_pylist(), found["partition"].to_pylist(), strict=True):
        assert partition == expected[file]
    return found.num_rows


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("us"), datetime(2020, 1, 1)),
        (pa.timestamp("us", "UTC"), datetime(2020, 1, 1, tzinfo=UTC)),
        (pa.decimal128(20, 2), Decimal("1.00")),
        (pa.timestamp("ms"), datetime(2020, 1, 1)),
        (pa.decimal128(18, 2), Decimal("1.00")),
        (pa.int64(), 1),
        (pa.string(), "a"),
    ],
    ids=str,
)
def test_vectors_are_in_the_partition_of_their_data_file(
    kind: pa.DataType, value: object, catalog: Any, warehouse: Path, accelerated: None
) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "p": pa.array([value, None] * 5, kind)})
    table = append(catalog, "d.nulls", rows, partition_keys=["p"])
    gone: set[int] = set()
    for number in (2, 3, 4, 5):
        assert paimon.delete(table, f"id = {number}").rows_deleted == 1
        gone.add(number)
        assert ids(table) == sorted(set(range(10)) - gone)
        assert check_partitions(Path(table.table_path)) == min(len(gone), 2)


@pytest.mark.parametrize("divisor", [2, 3, 5, 6])
def test_vectors_of_java_stay_where_java_finds_them(
    divisor: int, catalog: Any, warehouse: Path, accelerated: None
) -> None:
    """Files of Java and of pypaimon in the same null partition have partitions of different bytes."""
    table, folder = catalog.get_table(f"d.{NAME}"), warehouse / "d.db" / NAME
    like = rows_of(table).slice(0, 0).schema
    nulls = {field.name: pa.nulls(60, field.type) for field in like if field.name != "id"}
    write(table, pa.table({"id": pa.array(range(300, 360), pa.int64()), **nulls}, schema=like))
    partitions = set(partitions_of_files(folder).values())
    assert len(partitions) == 5  # of two partition columns, null or not, and one of pypaimon
    left = [number for number in range(360) if number % 7 or number >= 300]
    assert ids(table) == left
    before = check_partitions(folder)
    numbers = ", ".join(str(number) for number in range(360) if number % divisor == 0)
    assert paimon.delete(table, f"id IN ({numbers})").rows_deleted > 0
    assert ids(table) == [number for number in left if number % divisor]
    assert check_partitions(folder) == before + 1


def test_a_vector_in_the_bytes_of_pypaimon_moves_to_those_of_its_file(
    catalog: Any, warehouse: Path, accelerated: None
) -> None:
    """pypaimon's own commits change the bytes of all vectors; a new delete in the file brings them back."""
    table, folder = catalog.get_table(f"d.{NAME}"), warehouse / "d.db" / NAME
    right = partitions_of_files(folder)

    def shorten(entry: dict[str, Any]) -> None:
        if entry["_PARTITION"][5] == 3:  # both columns are null
            entry["_PARTITION"] = entry["_PARTITION"][:12] + bytes(16)

    rewrite(folder, shorten)
    before = ids(table)
    with pytest.raises(AssertionError):
        check_partitions(folder)
    assert paimon.delete(table, "id = 1").rows_deleted == 1
    assert ids(table) == [number for number in before if number != 1]
    found = {
        row["file_name"]: row["partition"] == right[row["file_name"]]
        for row in paimon.vectors(folder).to_pylist()
    }
    assert sorted(found.values()) == [False, *[True] * 7]  # the other file's vector waits for its own delete


def test_two_vectors_of_a_file_in_different_bytes_are_refused(
    catalog: Any, warehouse: Path, accelerated: None
) -> None:
    folder = warehouse / "d.db" / NAME

    def lengthen(entry: dict[str, Any]) -> None:
        entry["_PARTITION"] = entry["_PARTITION"] + bytes(8)
        entry["_FILE_NAME"] += "x"

    rewrite(folder, lengthen, appended=True)
    before = state(warehouse)
    with pytest.raises(errors.CorruptDataError, match=r"vectors of data file data-.* expected 1, found 2"):
        paimon.delete(folder, "id >= 0")
    assert state(warehouse) == before
