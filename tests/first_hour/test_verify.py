"""`verify` of a table whose data files are lost or damaged says so, with and without deletes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import puffin_fast as pf
from tests.kit.tables import delta_table, iceberg_table

ROWS = pa.table(
    {"id": pa.array(range(1000), pa.int64()), "word": [f"w{at * 7919 % 1000}" for at in range(1000)]}
)


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """The table ``shop.t`` of two data files without deletes."""
    return iceberg_table(catalog, [ROWS, ROWS], name="shop.t")


def data_files(table: Table) -> list[Path]:
    return sorted(Path(table.location()).glob("data/*.parquet"))


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def lengthen(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\0" * 10 + data[4:])


def other_rows(path: Path) -> None:
    size = path.stat().st_size
    pq.write_table(pq.read_table(path).slice(1), path)
    assert size != path.stat().st_size


def flip(path: Path) -> None:
    """Damages a page."""
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "kinds"),
    [
        (remove, {"missing"}),
        (cut, {"mismatch", "corrupt"}),
        (lengthen, {"mismatch"}),
        (other_rows, {"mismatch"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_damaged_data_files_are_found(table: Table, damage: Callable[[Path], None], kinds: set[str]) -> None:
    path = data_files(table)[1]
    assert pf.iceberg.verify(table) == []
    damage(path)
    found = pf.iceberg.verify(table)
    assert kinds <= {finding.kind for finding in found}
    assert {Path(finding.path) for finding in found} == {path}
    assert pf.iceberg.verify(table, level="metadata") == []
    assert pf.iceberg.verify(table, level="rows") != []


def test_damaged_pages_are_found_where_rows_are_decoded(table: Table) -> None:
    path = data_files(table)[0]
    flip(path)
    assert pf.iceberg.verify(table) == []
    (found,) = pf.iceberg.verify(table, level="rows")
    assert (found.kind, Path(found.path)) == ("corrupt", path)


def test_what_was_not_checked_is_said(table: Table) -> None:
    found = pf.iceberg.verify(table)
    assert (found.level, found.data_files) == ("files", 2)
    assert "values of the rows" in found.unchecked[0]
    assert pf.iceberg.verify(table, level="rows").unchecked == ()
    assert pf.iceberg.verify(table, level="metadata").unchecked == ("data files", "rows")
    assert repr(found).startswith("0 findings, 2 data files, level 'files'; not checked: values of the rows")
    with pytest.raises(
        pf.InvalidInputError, match="level: expected 'metadata', 'files' or 'rows', found 'all'"
    ):
        pf.iceberg.verify(table, level="all")  # type: ignore[arg-type]


def test_rows_of_a_table_with_deletes_are_decoded(table: Table) -> None:
    pf.iceberg.delete(table, "id < 10")
    pf.iceberg.upsert(table, ROWS.slice(5, 1), "id")
    assert pf.iceberg.verify(table, level="rows") == []
    first = table.snapshots()[0].snapshot_id
    assert pf.iceberg.verify(table, level="rows", snapshot_id=first).data_files == 1


def test_delta(tmp_path: Path) -> None:
    folder = delta_table(tmp_path / "d", [ROWS, ROWS], by="deltalake")
    assert pf.delta.verify(folder, level="rows") == []
    first, second = sorted(folder.glob("*.parquet"))
    flip(first)
    assert pf.delta.verify(folder) == []
    assert "data files" in pf.delta.verify(folder, level="metadata").unchecked
    found = pf.delta.verify(folder, level="rows")
    assert [(one.kind, one.path) for one in found] == [("corrupt", str(first))]
    second.unlink()
    found = pf.delta.verify(folder)
    assert [(one.kind, one.path) for one in found] == [("missing", str(second))]
    assert repr(found).splitlines() == [
        "1 finding, 2 data files, level 'files'; not checked: values of the rows (level 'rows' decodes them)",
        f"- missing: {second}: no such file, but the snapshot that is read lists it",
    ]
    assert pf.delta.verify(folder, level="metadata") == []
