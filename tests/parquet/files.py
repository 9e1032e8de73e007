"""Parquet files of several writers, and their columns as the package's reader and as PyArrow read them."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast.columns.plain_types import plain
from puffin_fast.rows.files.files import reading
from puffin_fast.rows.files.parquet import ParquetReader

CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")


def reader_of(path: Path | str) -> ParquetReader:
    return ParquetReader(PyArrowFileIO(), str(path))


def read(path: Path, names: list[str], rows: Any = None, *, group: int = 0) -> dict[str, pa.Array]:
    """Columns of a row group as scans read them: all rows, or those of some numbers."""
    with reading(str(path)):
        reader = reader_of(path)
        n_rows = reader.group_rows[group]
        return reader.columns(group, names, n_rows + 1, use_threads=False).read(0, n_rows, rows)


def read_by_pyarrow(path: Path, group: int, name: str) -> pa.Array:
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    found = file.read_row_group(group, columns=[name]).column(0)
    return plain(pa.concat_arrays(found.chunks) if found.num_chunks != 1 else found.chunk(0))


def few_columns(n: int) -> pa.Table:
    """Numbers, texts, flags, lists and structs, with nulls."""
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "k": pa.array([at % 7 or None for at in range(n)], pa.int32()),
            "text": [f"t{at % 50}" for at in range(n)],
            "flag": [at % 3 == 0 for at in range(n)],
            "items": [[at, None] for at in range(n)],
            "point": [{"x": at, "y": str(at)} for at in range(n)],
            "x": np.linspace(0, 1, n),
        }
    )


def columns_of_numbers(numbers: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_]) -> pa.Table:
    """Columns of all types that are asked for values, each made of the same numbers."""
    some = pa.array(numbers, mask=is_null)
    present = some.to_pylist()

    def decimals(digits: int) -> pa.Array:
        values = [None if n is None else Decimal(n % 10**digits - 999).scaleb(-2) for n in present]
        return pa.array(values, pa.decimal128(digits, 2))

    words = pa.array([None if n is None else f"{n}" * (n % 9) + "é" for n in present])
    day = datetime.datetime(2024, 2, 29, 1, 2, 3)
    return pa.table(
        {
            "long": some,
            "int": some.cast(pa.int32()),
            "day": pa.array(numbers % 40_000, pa.int32(), mask=is_null).cast(pa.date32()),
            "time": some.cast(pa.time64("us")),
            "ts": pa.array([day + datetime.timedelta(seconds=int(n)) for n in numbers], pa.timestamp("us")),
            "tz": some.cast(pa.timestamp("us", "UTC")),
            "d9": decimals(9),
            "d18": decimals(18),
            "d38": decimals(38),
            "text": words,
            "bytes": words.cast(pa.binary()),
            "fixed": pa.array([uuid.UUID(int=int(n)).bytes for n in numbers], pa.binary(16)),
        }
    )
