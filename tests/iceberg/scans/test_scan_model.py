"""Scans of random tables: schema, file layout, deletes and filter are drawn, and PyArrow computes the answer."""

from __future__ import annotations

import decimal
import random
import struct
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import DecimalType, DoubleType, IntegerType, LongType

from puffin_fast.iceberg import v3_metadata
from puffin_fast.iceberg.dml.tables import create_table
from puffin_fast.tables.delete import delete_positions
from puffin_fast.tables.overwrite import append
from puffin_fast.tables.scan import scan
from tests.kit.nanoseconds import nanosecond_types
from tests.kit.tables import path_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

N = 700


def made(chance: random.Random) -> pa.Table:
    """Rows of all primitive types, with the values that are easy to get wrong, and of nested ones."""
    nulls = chance.choice([0, 0.02, 0.5, 1])
    spread = chance.choice([3, 1 << 30])

    def column(make: Any, kind: pa.DataType, share: float = nulls) -> pa.Array:
        few = [make() for _ in range(chance.choice([1, 40]))]
        some = chance.random() < 0.5
        values = (chance.choice(few) if some else make() for _ in range(N))
        return pa.array([None if chance.random() < share else value for value in values], kind)

    def whole(bits: int = 64) -> int:
        return chance.choice([0, -1, chance.randrange(-spread, spread), (1 << bits - 1) - 1, -1 << bits - 1])

    def number() -> float:
        return chance.choice([0.0, -0.0, float("nan"), float("inf"), -1.5, chance.random(), 5e-324])

    def text() -> str:
        return (
            "é" * chance.choice([0, 0, 1, 3, 6, 7, 40])
            + str(chance.randrange(spread))[: chance.choice([0, 9])]
        )

    def exact(precision: int, scale: int) -> Any:
        def make() -> decimal.Decimal:
            most = 10 ** chance.randint(0, precision)
            return decimal.Decimal(chance.randrange(-most + 1, most)).scaleb(-scale, decimal.Context(prec=60))

        return make

    columns = {
        "id": pa.array(range(N), pa.int64()),
        "int": column(lambda: whole(32), pa.int32()),
        "long": column(whole, pa.int64()),
        "float": column(lambda: struct.unpack("<f", struct.pack("<f", number()))[0], pa.float32()),
        "double": column(number, pa.float64()),
        "bool": column(lambda: chance.random() < 0.5, pa.bool_()),
        "date": column(lambda: chance.randrange(-20_000, 20_000), pa.date32()),
        "time": column(lambda: chance.randrange(86_400_000_000), pa.time64("us")),
        "ts": column(lambda: whole(53), pa.timestamp("us")),
        "tstz": column(lambda: whole(53), pa.timestamp("us", "UTC")),
        "ns": column(lambda: whole(61), pa.timestamp("ns")),
        "text": column(text, pa.string()),
        "raw": column(lambda: text().encode(), pa.binary()),
        "fixed": column(lambda: chance.randbytes(5), pa.binary(5)),
        "uuid": column(lambda: chance.randbytes(16), pa.uuid()),
        "list": column(lambda: [text()] * chance.randrange(3), pa.list_(pa.string())),
        "inner": column(
            lambda: {"a": whole(), "b": text()}, pa.struct([("a", pa.int64()), ("b", pa.string())])
        ),
    }
    for precision in {9, 18, *chance.sample(range(1, 39), 3)}:
        scale = chance.randint(0, precision)
        columns[f"d{precision}"] = column(exact(precision, scale), pa.decimal128(precision, scale))
    return pa.table(columns)


def rewrite(table: Table, chance: random.Random) -> None:
    """Writes the table's file again, in another layout."""
    (path,) = (path_of(task.file.file_path) for task in table.scan().plan_files())
    rows = pq.read_table(path)
    if chance.random() < 0.2:  # no field ids
        pl.from_arrow(pq.read_table(path, columns=rows.column_names)).write_parquet(  # type: ignore[union-attr]
            path, row_group_size=chance.choice([64, N]), compression=chance.choice(["zstd", "lz4"])
        )
        return
    pq.write_table(
        rows,
        path,
        row_group_size=chance.choice([1, 64, 333, N]),
        compression=chance.choice(["none", "snappy", "gzip", "zstd", "lz4"]),
        use_dictionary=chance.choice([True, False]),
        data_page_size=chance.choice([50, 1000, 1 << 20]),
        write_batch_size=chance.choice([1, 10, 1024]),
        dictionary_pagesize_limit=chance.choice([64, 1 << 20]),
        data_page_version=chance.choice(["1.0", "2.0"]),
        store_decimal_as_integer=chance.random() < 0.5,
        store_schema=chance.random() < 0.5,
        write_page_index=chance.random() < 0.5,
        write_page_checksum=chance.random() < 0.5,
    )


FILTERS: dict[str, Any] = {
    "true": lambda rows: pa.array([True] * len(rows), pa.bool_()),
    "id >= 100 and id < 130": lambda rows: pc.and_(
        pc.greater_equal(rows["id"], 100), pc.less(rows["id"], 130)
    ),
    "text = ''": lambda rows: pc.equal(rows["text"], ""),
    "text is null": lambda rows: rows["text"].is_null(),
    "double is nan": lambda rows: pc.is_nan(rows["double"]),
    "bool = true": lambda rows: rows["bool"],
    "int > 0": lambda rows: pc.greater(rows["int"], 0),
    "not (int > 0 or date is null)": lambda rows: pc.and_kleene(
        pc.less_equal(rows["int"], 0), rows["date"].is_valid()
    ),
    "inner.a >= 0": lambda rows: pc.greater_equal(pc.struct_field(rows["inner"], "a"), 0),
    "id = 123456": lambda rows: pc.equal(rows["id"], 123456),
}
"""Filters, and what selects the same rows; `true` stands for none."""


def bits(column: pa.ChunkedArray) -> pa.Array:
    """Values that are equal if they are the same to the bit; NaN is not equal to itself."""
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_floating(array.type):
        return array.view(pa.int32() if array.type == pa.float32() else pa.int64())
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def evolve(table: Table, rows: pa.Table) -> pa.Table:
    """Promotes, renames and adds columns; returns the rows as the table now has them."""
    wider = rows.schema.field("d9").type.scale
    with v3_metadata(table.catalog), table.update_schema() as update:
        update.update_column("int", LongType())
        update.update_column("float", DoubleType())
        update.update_column("d9", DecimalType(30, wider))
        update.rename_column("long", "renamed")
        update.add_column("none", IntegerType())
        update.add_column("seven", IntegerType(), default_value=7)
    promoted = {"int": pa.int64(), "float": pa.float64(), "d9": pa.decimal128(30, wider)}
    for name, kind in promoted.items():
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(kind))
    rows = rows.rename_columns(["renamed" if name == "long" else name for name in rows.column_names])
    rows = rows.append_column("none", pa.nulls(N, pa.int32()))
    return rows.append_column("seven", pa.array([7] * N, pa.int32()))


def table_of(catalog: SqlCatalog, chance: random.Random) -> tuple[Table, pa.Table]:
    """A table, and its live rows."""
    rows = made(chance)
    types = nanosecond_types(rows.schema)
    table = create_table(catalog, f"n.t{chance.randrange(1 << 60)}", rows.schema, types=types)
    append(table, rows)
    with v3_metadata(catalog), table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
    rewrite(table, chance)
    share = chance.choice([0, 0.01, 0.5, 0.99, 1])
    gone = [at for at in range(N) if chance.random() < share]
    if gone:
        path = next(iter(table.scan().plan_files())).file.file_path
        deletes = {"file_path": [path] * len(gone), "pos": pa.array(gone, pa.int64())}
        delete_positions(table, pa.table(deletes))
    if chance.random() < 0.5:
        rows = evolve(table, rows)
    return table, rows.take(pa.array(np.setdiff1d(np.arange(N), gone)))


@pytest.mark.parametrize("seed", range(12))
def test_random_scans_are_what_pyarrow_computes(racing: SqlCatalog, seed: int) -> None:
    chance = random.Random(seed)
    table, live = table_of(racing, chance)
    for text, select in FILTERS.items():
        names = chance.sample(live.column_names, chance.randint(1, len(live.column_names)))
        limit = chance.choice([None, None, 0, 1, 100])
        given = {} if text == "true" else {"row_filter": text}
        answer = scan(
            table,
            selected_fields=names,
            limit=limit,
            threads=chance.choice([1, 3]),
            string_views=chance.random() < 0.3,
            **given,
        ).to_arrow()
        answer.validate(full=True)
        wanted = live.filter(select(live)).slice(0, limit)
        assert answer.num_rows == wanted.num_rows, (text, limit)
        for name in names:
            found, expected = bits(answer[name]), bits(wanted[name])
            assert found.cast(expected.type).equals(expected), (text, name, limit)


def test_threads_share_a_scan(racing: SqlCatalog) -> None:
    table, live = table_of(racing, random.Random(3))
    shared = scan(table, "id >= 20")
    expected = [at for at in live["id"].to_pylist() if at >= 20]
    found: list[Any] = []

    def read(number: int) -> None:
        try:
            if number % 3 == 0:  # ended early
                for _ in shared.to_batches():
                    break
            found.append(shared.to_arrow()["id"].to_pylist() == expected)
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8
