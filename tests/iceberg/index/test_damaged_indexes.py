"""Damaged, lost or foreign key indexes cost time, never rows; `verify` names them."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import DecimalType

from puffin_fast import iceberg, key_index
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.puffin import PuffinReader
from tests.iceberg.index.indexed_tables import (
    EACH,
    N,
    lookup_cache_cleared,
    make,
    replaced,
    rows,
    segment,
    stored,
)
from tests.kit.faults import RacingCatalog
from tests.kit.tables import path_of

LOSSES: dict[str, Callable[[Path, bytes], object]] = {
    "missing": lambda path, data: None,
    "empty": lambda path, data: path.write_bytes(b""),
    "cut": lambda path, data: path.write_bytes(data[:-9]),
    "other bytes": lambda path, data: path.write_bytes(bytes(reversed(data))),
    "zeros": lambda path, data: path.write_bytes(bytes(len(data))),
    "folder": lambda path, data: path.mkdir(),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_index_loses_no_rows(racing: RacingCatalog, loss: str) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    path = stored(table)
    data = path.read_bytes()
    path.unlink()
    LOSSES[loss](path, data)
    assert iceberg.delete_keys(table, [5, 700], "n").rows_deleted == 2
    assert iceberg.scan(table, "n = 9").count() == 1
    index = iceberg.index_keys(table, "n")
    assert (index.data_files_read, len(index.notes)) == (N, 1)
    assert iceberg.delete_keys(table, [6, 701], "n").rows_deleted == 2


@pytest.mark.parametrize("name", ["n", "s"])
def test_damaged_bytes_of_an_index_lose_and_add_no_rows(racing: RacingCatalog, name: str) -> None:
    table = make(racing)
    iceberg.index_keys(table, name)
    path = stored(table)
    data = path.read_bytes()
    chance = random.Random(5)
    where = "n = 500" if name == "n" else "s = 'name 200'"
    expected = iceberg.scan(table, where, ["n"]).to_arrow()
    for _ in range(60):
        lookup_cache_cleared()
        changed = bytearray(data)
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        assert iceberg.scan(table, where, ["n"]).to_arrow().equals(expected)


def test_a_segment_of_files_of_another_size_or_row_count_is_not_used(racing: RacingCatalog) -> None:
    for wrong in ("n_bytes", "n_rows"):
        table = make(racing, f"n.{wrong}")
        iceberg.index_keys(table, "n")

        def other(data: bytes, wrong: str = wrong) -> bytes:
            known = segment(data)
            files = [file._replace(**{wrong: getattr(file, wrong) + 1}) for file in known.files]
            n_rows = sum(file.n_rows for file in files)
            return key_index.encode([pa.array([10**6] * n_rows, pa.int64())], files, known.fields)

        replaced(table, other)
        assert iceberg.scan(table, "n = 5").count() == 1


def test_verify_finds_nothing_wrong_with_an_index(racing: RacingCatalog) -> None:
    table = make(racing)
    for columns in ("n", "s", ["i", "point.x"], "d", "wide", "price"):
        iceberg.index_keys(table, columns)
    iceberg.delete_keys(table, [5, 6], "n")
    iceberg.append(table, rows(5000, 5010))
    for level in ("metadata", "files", "rows"):
        assert list(iceberg.verify(table, level=level)) == []


def test_an_index_of_an_older_layout_is_ignored_by_name_and_built_again(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    replaced(table, lambda data: data[:4] + b"\1" + data[5:])
    (advice,) = [one for one in iceberg.report(table).advice if "index_keys" in one]
    assert "key index of version 1; expected 2" in advice
    (note,) = iceberg.scan(table, "n = 7").explain().notes
    assert "key index of version 1; expected 2" in note
    (finding,) = iceberg.verify(table)
    assert finding.kind == "unsupported"
    assert iceberg.delete_keys(table, [7], "n").rows_deleted == 1
    index = iceberg.index_keys(table, "n")
    assert (index.data_files_read, len(index.notes)) == (N, 1)
    assert iceberg.report(table).key_indexes["share_of_rows"].to_pylist() == [1.0]


def test_verify_names_damage_of_an_index(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    path = stored(table)
    data = path.read_bytes()
    with PuffinReader(path) as reader:
        (blob,) = reader.blobs
    changed = bytearray(data)
    changed[blob.offset + blob.length - 9] ^= 1
    path.write_bytes(changed)
    (finding,) = iceberg.verify(table)
    assert (finding.kind, finding.offset) == ("corrupt", blob.offset)
    assert "key index: block" in finding.message
    assert list(iceberg.verify(table, level="metadata")) == []
    path.write_bytes(data[:-3])
    (finding,) = iceberg.verify(table, level="metadata")
    assert (finding.kind, finding.offset) == ("corrupt", None)
    path.unlink()
    (finding,) = iceberg.verify(table)
    assert finding.kind == "missing"


@pytest.mark.parametrize("name", ["n", "s"])
def test_verify_compares_an_index_with_the_rows(racing: RacingCatalog, name: str) -> None:
    table = make(racing)
    iceberg.index_keys(table, name)

    def other(data: bytes) -> bytes:
        known = segment(data)
        values = rows(0, N * EACH)[name].combine_chunks()
        return key_index.encode([values], known.files, known.fields)  # whose data files are in another order

    replaced(table, other)
    assert list(iceberg.verify(table)) == []
    found = iceberg.verify(table, level="rows")
    assert {finding.kind for finding in found} == {"mismatch"}
    assert "expected the keys of" in found[0].message


def test_verify_compares_the_places_of_pages_with_the_data_files(racing: RacingCatalog) -> None:
    table = make(racing)
    iceberg.index_keys(table, "s")

    def other(data: bytes) -> bytes:
        known = segment(data)
        values = [pq.read_table(path_of(file.location))["s"].combine_chunks() for file in known.files]
        start, dictionary, n_bytes, *rest = known.pages[1][0]
        pages = [*known.pages[:1], [[start, dictionary + 1, n_bytes - 1, *rest]], *known.pages[2:]]
        return key_index.encode([pa.concat_arrays(values)], known.files, known.fields, pages=pages)

    replaced(table, other)
    (finding,) = iceberg.verify(table, level="rows")
    assert finding.kind == "mismatch"
    assert "expected the keys of" in finding.message
    assert iceberg.delete_keys(table, ["name 7", "name 250"], "s").rows_deleted == 7  # no row is lost


def test_verify_compares_decimals_that_have_more_digits_now(racing: RacingCatalog) -> None:
    data = pa.table({"p": pa.array([Decimal(n) for n in range(100)], pa.decimal128(10, 2))})
    table = iceberg.create_table(racing, "n.decimals", data.schema)
    iceberg.append(table, data)
    iceberg.index_keys(table, "p")
    with v3_metadata(racing), table.update_schema() as update:
        update.update_column("p", field_type=DecimalType(20, 2))
    assert iceberg.verify(table, level="rows") == []

    def other(blob: bytes) -> bytes:
        known = segment(blob)
        return key_index.encode([data["p"].combine_chunks()[::-1]], known.files, known.fields)

    replaced(table, other)
    (finding,) = iceberg.verify(table, level="rows")
    assert "expected the keys of" in finding.message


def test_a_footer_that_names_another_column_is_damage(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.footers", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    iceberg.append(table, pa.table({"a": range(100), "b": range(100, 0, -1)}))
    path = path_of(str(iceberg.index_keys(table, "a").statistics_path))
    found = bytearray(path.read_bytes())
    at = found.rindex(b'"fields"')
    found[found.index(b"1", at)] = ord("2")
    path.write_bytes(found)
    assert iceberg.delete_keys(table, [5], "b").rows_deleted == 1
    rows = iceberg.scan(table).to_arrow()
    assert 5 not in rows["b"].to_pylist()
    assert 5 in rows["a"].to_pylist()
    (finding,) = iceberg.verify(table)
    assert "key columns of a key index" in finding.message
