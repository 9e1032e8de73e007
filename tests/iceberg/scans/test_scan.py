"""Scans: streams can be closed, row groups without selected rows are not read, columns are found by field id."""

from __future__ import annotations

import datetime
import gc
import itertools
import random
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyiceberg import types
from pyiceberg.expressions import GreaterThan

from puffin_fast._concurrency.streams import CAPACITY, in_order
from puffin_fast.errors import (
    CorruptDataError,
    InvalidInputError,
    MissingExtraError,
    NotFoundError,
    UnsupportedError,
)
from puffin_fast.iceberg import delete, delete_positions, plan_files, scan
from puffin_fast.rows.files.conversion import ProjectionError, arrow_type, constant
from puffin_fast.rows.files.projection import FileSchema, Projection
from tests.iceberg.scans.row_groups import ROWS, N, table
from tests.kit.tables import iceberg_table, path_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

__all__ = ["table"]


def data_files(table: Table) -> list[Path]:
    return [path_of(task.data.file_path) for task in plan_files(table).tasks]


def spoil(path: Path, groups: Iterable[int], columns: Iterable[int] = range(3)) -> None:
    """Overwrites the pages of some columns in some row groups, so that reading them fails."""
    footer = pq.read_metadata(path)
    content = bytearray(path.read_bytes())
    for number, at in itertools.product(groups, columns):
        column = footer.row_group(number).column(at)
        start = column.dictionary_page_offset or column.data_page_offset
        content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)


@pytest.mark.parametrize("threads", [None, 1, 2, 5])
def test_rows_come_in_the_order_of_the_file_whatever_the_threads(table: Table, threads: int | None) -> None:
    deleted = sorted(random.Random(3).sample(range(N), 400))
    path = plan_files(table).tasks[0].data.file_path
    delete_positions(table, pa.table({"file_path": [path] * 400, "pos": pa.array(deleted, pa.int64())}))
    left = np.setdiff1d(np.arange(N), deleted)
    answer = scan(table, selected_fields=("*", "_pos", "_file"), threads=threads).to_arrow()
    answer.validate(full=True)
    assert answer["_pos"].to_pylist() == left.tolist()
    assert answer.select(["id", "k", "s"]).to_pylist() == ROWS.take(left).to_pylist()
    assert set(answer["_file"].to_pylist()) == {path}
    some = scan(table, "id >= 150 and k = 3", ("_pos",), threads=threads).to_arrow()["_pos"].to_pylist()
    assert some == [i for i in left if i >= 150 and i % 10 == 3 and i % 7]


def test_row_groups_without_a_selected_row_are_not_read(table: Table) -> None:
    (path,) = data_files(table)
    assert pq.read_metadata(path).num_row_groups == 10
    delete(table, "id >= 200 and id < 400")
    spoil(path, [0, 2, 3, 9])
    assert scan(table, "id >= 100 and id < 900").to_arrow()["id"].to_pylist() == [
        *range(100, 200),
        *range(400, 900),
    ]
    with pytest.raises(CorruptDataError, match=path.name):
        scan(table).to_arrow()
    for limit in (1, 50):
        assert scan(table, "id >= 450", limit=limit).to_arrow()["id"].to_pylist() == [
            *range(450, 450 + limit)
        ]


def test_a_file_all_of_whose_rows_are_deleted_is_not_opened(racing: SqlCatalog) -> None:
    table = iceberg_table(racing, [ROWS, ROWS.slice(0, 10)])
    (big,) = [task.data for task in plan_files(table).tasks if task.data.record_count == N]
    delete_positions(
        table, pa.table({"file_path": [big.file_path] * N, "pos": pa.array(range(N), pa.int64())})
    )
    path_of(big.file_path).unlink()
    assert scan(table).to_arrow().num_rows == 10


def test_columns_that_are_not_asked_for_are_not_read(table: Table) -> None:
    (path,) = data_files(table)
    spoil(path, range(10), [2])
    assert scan(table, "k = 3", ("id",)).to_arrow().num_rows == sum(
        i % 10 == 3 and i % 7 != 0 for i in range(N)
    )
    assert scan(table, selected_fields=()).to_arrow().num_rows == N
    assert scan(table, selected_fields=("_pos",), limit=7).to_arrow()["_pos"].to_pylist() == [*range(7)]
    with pytest.raises(CorruptDataError):
        scan(table, selected_fields=("s",)).to_arrow()


def test_a_limit_stops_before_the_next_file(racing: SqlCatalog) -> None:
    table = iceberg_table(racing, [ROWS.slice(0, 10)] * 12)
    for task in plan_files(table).tasks[9:]:
        path_of(task.data.file_path).unlink()
    assert scan(table, limit=10, threads=2).to_arrow().num_rows == 10
    assert scan(table, limit=0).to_arrow().num_rows == 0
    with pytest.raises(NotFoundError, match="parquet"):
        scan(table).to_arrow()


def test_closing_a_stream_ends_its_threads(table: Table) -> None:
    def alive() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.startswith("puffin_fast-scan")]

    batches = scan(table, threads=3).to_batches()
    next(batches)
    assert alive()
    batches.close()
    assert not alive()
    reader = scan(table, threads=3).to_reader()
    reader.read_next_batch()
    del reader
    gc.collect()
    assert not alive()


def test_jobs_run_only_a_little_ahead_of_the_reader() -> None:
    made = 0
    lock = threading.Lock()

    def work(job: int) -> Any:
        nonlocal made
        for number in range(100):
            with lock:
                made += 1
            yield job, number

    results = in_order(range(10), work, 2)
    first = next(results)
    assert first == (0, 0)
    assert made <= 2 * 2 * (CAPACITY + 2)
    assert [first, *results] == [(job, number) for job in range(10) for number in range(100)]


def test_an_error_in_a_job_is_raised_after_the_batches_before_it() -> None:
    def work(job: int) -> Any:
        yield job
        if job == 2:
            raise InvalidInputError("two")

    found = []
    with pytest.raises(InvalidInputError, match="two"):
        found += in_order(range(50), work, 3)
    results = in_order(range(50), work, 3)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InvalidInputError):
        next(results)


def test_a_scan_becomes_a_frame_of_each_library(table: Table) -> None:
    delete(table, "k = 3")
    answer, few = scan(table), lambda: scan(table, "id < 50")
    rows = few().to_arrow()
    assert duckdb.from_arrow(answer.to_reader()).aggregate("count(*), sum(id)").fetchall() == [
        (answer.count(), sum(answer.to_arrow()["id"].to_pylist()))
    ]
    assert answer.to_arrow().schema == answer.schema == answer.to_reader().schema
    with pytest.raises(TypeError, match=r"expected scan\.to_pandas\(\)"):
        pandas.DataFrame(answer)
    assert few().to_pandas()["id"].tolist() == pa.table(few()).to_pandas()["id"].tolist()
    assert few().to_pandas()["id"].tolist() == rows["id"].to_pylist()
    assert "category" in set(map(str, few().to_pandas(strings_to_categorical=True).dtypes))
    assert few().to_polars().rows() == [tuple(row.values()) for row in rows.to_pylist()]
    assert polars.DataFrame(few())["id"].to_list() == rows["id"].to_pylist()
    assert pa.Table.from_batches(list(few())).equals(pa.table(few()))
    connection = few().to_duckdb("few")
    assert scan(table, "id >= 50").to_duckdb("many", connection) is not None
    counts = connection.execute("SELECT (SELECT count(*) FROM few), (SELECT count(*) FROM many)").fetchall()
    assert counts == [(rows.num_rows, scan(table, "id >= 50").count())]


@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb"])
def test_a_frame_s_package_that_is_missing_is_named(
    table: Table, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    make = getattr(scan(table), f"to_{package}")
    with pytest.raises(MissingExtraError, match=f"^{package} is not installed: pip install {package}$"):
        make(*["rows"] * (package == "duckdb"))


def test_filters_of_all_kinds_agree(table: Table) -> None:
    expected = [i for i in range(N) if i % 7 and i % 10 > 6]
    for filter in ("k > 6", GreaterThan("k", 6), ds.field("k") > 6):
        assert scan(table, filter, ("id",)).to_arrow()["id"].to_pylist() == expected
    assert scan(table, "K > 6", ("ID",), case_sensitive=False).to_arrow().column_names == ["id"]


def test_missing_columns_snapshots_references_and_files_are_named(racing: SqlCatalog, table: Table) -> None:
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (NotFoundError, {"selected_fields": ("nope",)}),
        (NotFoundError, {"row_filter": "nope = 1"}),
        (NotFoundError, {"branch": "nope"}),
    ]
    for error, options in wrong:
        with pytest.raises(error, match="nope"):
            scan(table, **options)
    (path,) = data_files(table)
    path.unlink()
    with pytest.raises(NotFoundError, match=path.name):
        scan(table).to_arrow()
    path.write_bytes(b"PAR1 this is none PAR1")
    with pytest.raises(CorruptDataError, match=path.name):
        scan(table).to_arrow()
    empty = iceberg_table(racing, ROWS.schema, name="n.empty")
    answer = scan(empty, selected_fields=("id", "_pos")).to_arrow()
    assert (answer.num_rows, answer.column_names) == (0, ["id", "_pos"])


def test_identity_partitions_fill_columns_that_files_lack(racing: SqlCatalog) -> None:
    """As in tables that were migrated from Hive: the partition column is in the path only."""
    rows = pa.table(
        {
            "id": range(4),
            "day": [None, *(datetime.date(2020, 1, i) for i in (1, 2, 3))],
            "amount": pa.nulls(4, pa.decimal128(9, 2)),
            "word": ["w"] * 4,
            "at": pa.array(range(0, 4 * 10**6, 10**6), pa.timestamp("us", "UTC")),
            "other": range(4),
        }
    )
    spec = ("day", "amount", "word", "at", "bucket[4](other)")
    table = iceberg_table(racing, rows, version=2, partition=spec)
    before = scan(table).to_arrow().sort_by("id")
    for path in data_files(table):
        pq.write_table(pq.read_table(path, partitioning=None).select(["id"]), path, store_schema=False)
    after = scan(table).to_arrow().sort_by("id")
    assert after.drop_columns(["other"]).equals(before.drop_columns(["other"]))
    assert after["other"].null_count == 4
    day = scan(table, "day = '2020-01-02' and word = 'w'", ("id",)).to_arrow()
    assert day["id"].to_pylist() == [2]


def test_files_without_field_ids_are_read_by_the_name_mapping(racing: SqlCatalog) -> None:
    rows = ROWS.append_column("l", pa.array([[{"a": i}] if i % 3 else None for i in range(N)]))
    table = racing.create_table("n.t", rows.schema)
    path = path_of(table.location()) / "plain.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    table.add_files([f"file://{path}"])
    with table.update_schema() as update:
        update.rename_column("s", "word")
    answer = scan(table).to_arrow()
    assert answer.column_names == ["id", "k", "word", "l"]
    assert answer.rename_columns(rows.column_names).to_pylist() == rows.to_pylist()
    assert scan(table, "word = 's1'").to_arrow().num_rows == N // 5
    with table.transaction() as change:
        change.remove_properties("schema.name-mapping.default")
    with pytest.raises(UnsupportedError, match="name-mapping"):
        scan(table).to_arrow()


def field(number: int, name: str, kind: pa.DataType, **named: Any) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)}, **named)


def project(file: pa.Table, *fields: types.NestedField, constants: dict[int, Any] | None = None) -> list[Any]:
    steps = Projection.of(FileSchema(file.schema), fields)
    columns = {name: file[name].combine_chunks() for name in file.column_names}
    arrays = steps.arrays(columns, file.num_rows, constants or {})
    for array, wanted in zip(arrays, fields, strict=True):
        array.validate(full=True)
        assert array.type == arrow_type(wanted.field_type)
    return [array.to_pylist() for array in arrays]


def test_nested_fields_are_found_by_id_at_every_depth() -> None:
    element = pa.struct([field(5, "a", pa.int32()), field(6, "b", pa.string()), field(7, "gone", pa.int8())])
    file = pa.table(
        {
            "l": pa.array([[{"a": 1, "b": "x", "gone": 1}, None], None, [], [{"a": None, "b": "y", "gone": 2}]],
                          pa.list_(field(4, "item", element))),
            "m": pa.array([[("k", {"v": 1.5})], None, [], [("k", None)]],
                          pa.map_(pa.string(), pa.struct([field(10, "v", pa.float32())]))),
        },
        schema=pa.schema(
            [
                field(1, "l", pa.list_(field(4, "item", element))),
                field(2, "m", pa.map_(field(8, "key", pa.string(), nullable=False),
                                      field(9, "value", pa.struct([field(10, "v", pa.float32())])))),
            ]
        ),
    )  # fmt: skip
    wanted = (
        types.NestedField(
            1,
            "renamed",
            types.ListType(
                4,
                types.StructType(
                    types.NestedField(6, "was_b", types.StringType()),
                    types.NestedField(20, "new", types.LongType(), initial_default=7),
                    types.NestedField(5, "a", types.LongType()),
                ),
                element_required=False,
            ),
        ),
        types.NestedField(
            2,
            "m",
            types.MapType(
                8,
                types.StringType(),
                9,
                types.StructType(types.NestedField(10, "v", types.DoubleType())),
                value_required=False,
            ),
        ),
        types.NestedField(3, "s", types.StructType(types.NestedField(30, "x", types.LongType()))),
    )
    for part in (file, pa.concat_tables([file, file]).slice(2, 5), file.slice(1)):
        renamed, m, s = project(part, *wanted)
        assert renamed == [
            None if row is None else [e and {"was_b": e["b"], "new": 7, "a": e["a"]} for e in row]
            for row in part["l"].to_pylist()
        ]
        assert m == part["m"].to_pylist()
        assert s == [None] * part.num_rows


def test_a_dropped_field_does_not_come_back_under_its_name() -> None:
    file = pa.table(
        {"s": pa.array([{"a": 1}, None])},
        schema=pa.schema([field(1, "s", pa.struct([field(2, "a", pa.int64())]))]),
    )
    assert project(
        file, types.NestedField(1, "s", types.StructType(types.NestedField(3, "a", types.LongType())))
    ) == [[{"a": None}, None]]
    assert project(
        file, types.NestedField(9, "s", types.StructType(types.NestedField(2, "a", types.LongType())))
    ) == [[None, None]]


def test_defaults_and_promotions() -> None:
    uuid = UUID(int=5)
    file = pa.table(
        {
            "i": pa.array([1, None], pa.int32()),
            "d": pa.array([0, None], pa.date32()),
            "u": pa.array([uuid.bytes] * 2, pa.binary(16)),
        },
        schema=pa.schema(
            [field(1, "i", pa.int32()), field(2, "d", pa.date32()), field(3, "u", pa.binary(16))]
        ),
    )
    epoch = datetime.datetime(1970, 1, 1)
    assert project(
        file,
        types.NestedField(1, "i", types.LongType()),
        types.NestedField(2, "d", types.TimestampType()),
        types.NestedField(3, "u", types.UUIDType()),
        types.NestedField(4, "n", types.IntegerType(), required=True, initial_default=3),
        types.NestedField(5, "w", types.UUIDType(), initial_default=uuid),
        types.NestedField(6, "p", types.DateType()),
        constants={6: 1},
    ) == [
        [1, None],
        [epoch, None],
        [uuid, uuid],
        [3, 3],
        [uuid, uuid],
        [(epoch + datetime.timedelta(1)).date()] * 2,
    ]
    with pytest.raises(ProjectionError, match="required field 7"):
        project(file, types.NestedField(7, "r", types.IntegerType(), required=True))
    assert constant(None, pa.uuid(), 2).null_count == 2
