"""Checks the tables of the demo: other engines must read the rows that a plain filter of the source selects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from puffin_fast.bitmap import PositionBitmap

EXTENSIONS = ("avro", "httpfs", "iceberg")
"""DuckDB's extensions for Iceberg, in the order of their dependencies."""


class DisagreementError(Exception):
    """The rows that another engine reads are not those of the plain filter."""


@contextmanager
def duckdb_with_iceberg(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Opens a DuckDB connection with the Iceberg extension from installed packages; nothing is downloaded.

    Args:
        folder: for temporary files of DuckDB.
    """
    settings: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": str(folder / "duckdb"),
        "memory_limit": "3GB",
    }
    with duckdb.connect(config=settings) as connection:
        for name in EXTENSIONS:
            (package,) = import_module(f"duckdb_extension_{name}").__path__
            (extension,) = Path(package).glob(f"extensions/*/{name}.duckdb_extension")
            connection.execute(f"LOAD '{extension}'")
        yield connection


def check_rows(
    connection: duckdb.DuckDBPyConnection, table: Table, source: Sequence[Path], deleted: Sequence[str]
) -> dict[str, int]:
    """Compares the rows that other engines read with those of a plain filter of the source.

    The number of rows and the sum of their 64-bit hashes over all columns are compared, so the order of the rows
    does not matter.

    Args:
        connection: from `duckdb_with_iceberg`.
        table: with its newest metadata.
        source: the Parquet files with the rows of the table.
        deleted: the row filters of all deletes so far.

    Returns:
        The number of rows that each engine read.

    Raises:
        DisagreementError: an engine reads other rows.
    """
    files = [str(file) for file in source]
    kept = " AND ".join(f"({where}) IS NOT TRUE" for where in deleted)
    plain = f"read_parquet({files})"
    described = connection.sql(f"FROM {plain}")
    types = dict(zip(described.columns, described.types, strict=True))
    expected = _fingerprint(connection, f"{plain} WHERE {kept}", types)
    rows = {"plain filter": expected[0]}
    connection.register("pyiceberg_scan", table.scan(selected_fields=tuple(types)).to_arrow_batch_reader())
    engines = {"PyIceberg": "pyiceberg_scan", "DuckDB": f"iceberg_scan('{table.metadata_location}')"}
    for engine, relation in engines.items():
        found = _fingerprint(connection, relation, types)
        rows[engine] = found[0]
        if found != expected:
            raise DisagreementError(
                f"{engine}: expected {expected[0]:,} rows with the hash {expected[1]:x}, "
                f"found {found[0]:,} with {found[1]:x}"
            )
    connection.unregister("pyiceberg_scan")
    return rows


def _fingerprint(
    connection: duckdb.DuckDBPyConnection, relation: str, types: Mapping[str, object]
) -> tuple[int, int]:
    """Returns the number of rows and the sum of their hashes, with each column in the type of the source."""
    columns = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())
    row = connection.execute(
        f"SELECT count(*), coalesce(sum(hash(r)::HUGEINT), 0) FROM (SELECT {columns} FROM {relation}) AS r"
    ).fetchone()
    assert row is not None  # an aggregate without groups has one row
    return int(row[0]), int(row[1])


def position_delete_bytes(vectors: Iterable[tuple[str, PositionBitmap]], folder: Path) -> int:
    """Writes the same deletes as Parquet position-delete files, one per data file, with zstd; returns their bytes.

    Args:
        vectors: data file and its deleted positions.
        folder: the folder of the files, which are not removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    for number, (data_file, bitmap) in enumerate(vectors):
        positions = bitmap.to_arrow()
        paths = pa.repeat(pa.scalar(data_file), len(positions))
        path = folder / f"{number:05d}-deletes.parquet"
        pq.write_table(
            pa.table({"file_path": paths, "pos": positions}),
            path,
            compression="zstd",
            write_page_checksum=True,
        )
        size += path.stat().st_size
    return size
