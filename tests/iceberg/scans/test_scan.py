"""Scans: streams can be closed, row groups without selected rows are not read, columns are found by field id."""

from __future__ import annotations

import datetime
import gc
import random
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import GreaterThan
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from puffin_fast._run.streams import CAPACITY, in_order
from puffin_fast.errors import (
    CorruptDataError,
    InvalidInputError,
    MissingExtraError,
    NotFoundError,
    UnsupportedError,
)
from puffin_fast.iceberg.dml.delete import delete, delete_positions
from puffin_fast.iceberg.dml.tables import append, create_table
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.iceberg.scans.scan import scan
from puffin_fast.rows.files.conversion import ProjectionError, arrow_type, constant
from puffin_fast.rows.files.projection import FileSchema, Projection
from tests.iceberg.conftest import local
from tests.iceberg.scans.row_groups import ROWS, N, table

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

__all__ = ["table"]


def data_files(table: Table) -> list[Path]:
    return [local(task.data.file_path) for task in plan_files(table).tasks]


def spoil(path: Path, groups: list[int]) -> None:
    """Overwrites the pages of some row groups, so that reading them fails."""
    footer = pq.read_metadata(path)
    content = bytearray(path.read_bytes())
    for number in groups:
        for at in range(footer.num_columns):
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
    table = create_table(racing, "n.t", ROWS.schema)
    append(table, ROWS)
    append(table, ROWS.slice(0, 10))
    tasks = plan_files(table).tasks
    (big,) = [task.data for task in tasks if task.data.record_count == N]
    delete_positions(
        table, pa.table({"file_path": [big.file_path] * N, "pos": pa.array(range(N), pa.int64())})
    )
    local(big.file_path).unlink()
    assert scan(table).to_arrow().num_rows == 10


def test_columns_that_are_not_asked_for_are_not_read(table: Table) -> None:
    (path,) = data_files(table)
    footer = pq.read_metadata(path)
    content = bytearray(path.read_bytes())
    for number in range(10):
        column = footer.row_group(number).column(2)
        start = column.dictionary_page_offset or column.data_page_offset
        content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    assert scan(table, "k = 3", ("id",)).to_arrow().num_rows == sum(
        i % 10 == 3 and i % 7 != 0 for i in range(N)
    )
    assert scan(table, selected_fields=()).to_arrow().num_rows == N
    assert scan(table, selected_fields=("_pos",), limit=7).to_arrow()["_pos"].to_pylist() == [*range(7)]
    with pytest.raises(CorruptDataError):
        scan(table, selected_fields=("s",)).to_arrow()


def test_a_limit_stops_before_the_next_file(racing: SqlCatalog) -> None:
    table = create_table(racing, "n.t", ROWS.schema)
    for _ in range(12):
        append(table, ROWS.slice(0, 10))
    for task in plan_files(table).tasks[9:]:
        local(task.data.file_path).unlink()
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


def test_duckdb_polars_and_pandas_take_the_stream(table: Table) -> None:
    import duckdb
    import pandas
    import polars

    delete(table, "k = 3")
    left = [i for i in range(N) if i % 10 != 3 or i % 7 == 0]
    relation = duckdb.from_arrow(scan(table).to_reader())
    assert relation.aggregate("count(*), sum(id)").fetchall() == [(len(left), sum(left))]
    assert polars.DataFrame(scan(table))["id"].to_list() == left
    with pytest.raises(TypeError, match=r"expected scan\.to_pandas\(\)"):
        pandas.DataFrame(scan(table))
    assert pa.table(scan(table)).to_pandas()["id"].tolist() == left
    answer = scan(table)
    assert answer.to_arrow().schema == answer.schema == answer.to_reader().schema


def test_a_scan_becomes_a_frame_of_each_library(table: Table) -> None:
    rows = scan(table, "id < 50").to_arrow()
    assert scan(table, "id < 50").to_pandas()["id"].tolist() == rows["id"].to_pylist()
    frame = scan(table, "id < 50").to_pandas(strings_to_categorical=True)
    assert "category" in set(map(str, frame.dtypes))
    assert scan(table, "id < 50").to_polars().rows() == [tuple(row.values()) for row in rows.to_pylist()]
    connection = scan(table, "id < 50").to_duckdb("few")
    assert scan(table, "id >= 50").to_duckdb("many", connection) is not None
    counts = connection.execute("SELECT (SELECT count(*) FROM few), (SELECT count(*) FROM many)").fetchall()
    assert counts == [(rows.num_rows, scan(table, "id >= 50").count())]
    assert pa.Table.from_batches(list(scan(table, "id < 50"))).equals(pa.table(scan(table, "id < 50")))


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


def test_missing_columns_snapshots_and_references_are_named(table: Table) -> None:
    with pytest.raises(NotFoundError, match="nope"):
        scan(table, selected_fields=("nope",))
    with pytest.raises(NotFoundError, match="nope"):
        scan(table, "nope = 1")
    with pytest.raises(NotFoundError):
        scan(table, branch="nope")
    with pytest.raises(InvalidInputError):
        scan(table, limit=-1)
    with pytest.raises(InvalidInputError):
        scan(table, selected_fields="id")
    (path,) = data_files(table)
    path.unlink()
    with pytest.raises(NotFoundError, match=path.name):
        scan(table).to_arrow()
    path.write_bytes(b"PAR1 this is none PAR1")
    with pytest.raises(CorruptDataError, match=path.name):
        scan(table).to_arrow()


def test_an_empty_table_has_a_schema(racing: SqlCatalog) -> None:
    table = create_table(racing, "n.t", ROWS.schema)
    answer = scan(table, selected_fields=("id", "_pos")).to_arrow()
    assert (answer.num_rows, answer.column_names) == (0, ["id", "_pos"])


def test_identity_partitions_fill_columns_that_files_lack(racing: SqlCatalog) -> None:
    """As in tables that were migrated from Hive: the partition column is in the path only."""
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "day", DateType()),
        NestedField(3, "amount", DecimalType(9, 2)),
        NestedField(4, "word", StringType()),
        NestedField(5, "at", TimestamptzType()),
        NestedField(6, "other", LongType()),
    )
    spec = PartitionSpec(
        *[PartitionField(id, 1000 + id, IdentityTransform(), f"p{id}") for id in (2, 3, 4, 5)],
        PartitionField(6, 1006, BucketTransform(4), "p6"),
    )
    table = racing.create_table("n.t", schema, partition_spec=spec)
    made = [
        {
            "id": i,
            "day": None if i == 3 else datetime.date(2020, 1, i + 1),
            "amount": None,
            "word": "w",
            "at": datetime.datetime(2020, 1, 1, i, tzinfo=datetime.UTC),
            "other": i,
        }
        for i in range(4)
    ]
    rows = pa.Table.from_pylist(made, schema.as_arrow())
    table.append(rows)
    before = scan(table).to_arrow().sort_by("id")
    for path in data_files(table):
        thin = pq.read_table(path, partitioning=None).select(["id"])
        pq.write_table(thin, path, store_schema=False)
    after = scan(table).to_arrow().sort_by("id")
    assert after.drop_columns(["other"]).equals(before.drop_columns(["other"]))
    assert after["other"].null_count == 4
    day = scan(table, "day = '2020-01-02' and word = 'w'", ("id",)).to_arrow()
    assert day["id"].to_pylist() == [1]


def test_files_without_field_ids_are_read_by_the_name_mapping(racing: SqlCatalog) -> None:
    rows = ROWS.append_column("l", pa.array([[{"a": i}] if i % 3 else None for i in range(N)]))
    table = racing.create_table("n.t", rows.schema)
    path = local(table.location()) / "plain.parquet"
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


def project(file: pa.Table, *fields: NestedField, constants: dict[int, Any] | None = None) -> list[Any]:
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
        NestedField(
            1,
            "renamed",
            ListType(
                4,
                StructType(
                    NestedField(6, "was_b", StringType()),
                    NestedField(20, "new", LongType(), initial_default=7),
                    NestedField(5, "a", LongType()),
                ),
                element_required=False,
            ),
        ),
        NestedField(
            2,
            "m",
            MapType(8, StringType(), 9, StructType(NestedField(10, "v", DoubleType())), value_required=False),
        ),
        NestedField(3, "s", StructType(NestedField(30, "x", LongType()))),
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
    assert project(file, NestedField(1, "s", StructType(NestedField(3, "a", LongType())))) == [
        [{"a": None}, None]
    ]
    assert project(file, NestedField(9, "s", StructType(NestedField(2, "a", LongType())))) == [[None, None]]


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
        NestedField(1, "i", LongType()),
        NestedField(2, "d", TimestampType()),
        NestedField(3, "u", UUIDType()),
        NestedField(4, "n", IntegerType(), required=True, initial_default=3),
        NestedField(5, "w", UUIDType(), initial_default=uuid),
        NestedField(6, "p", DateType()),
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
        project(file, NestedField(7, "r", IntegerType(), required=True))
    assert constant(None, pa.uuid(), 2).null_count == 2


def test_random_deletes_over_random_row_groups_leave_the_rest(racing: SqlCatalog) -> None:
    chance = random.Random(11)
    table = create_table(racing, "n.t", ROWS.schema, properties={"write.parquet.row-group-limit": "64"})
    for _ in range(3):
        append(table, ROWS)
    paths = sorted(task.data.file_path for task in plan_files(table).tasks)
    gone: dict[str, set[int]] = {path: set() for path in paths}
    for _ in range(6):
        picks = [(chance.choice(paths), chance.randrange(N)) for _ in range(chance.choice([1, 5, 400]))]
        delete_positions(
            table,
            pa.table(
                {"file_path": [p for p, _ in picks], "pos": pa.array([i for _, i in picks], pa.int64())}
            ),
        )
        for path, position in picks:
            gone[path].add(position)
        answer = scan(table, selected_fields=("id", "_file", "_pos")).to_arrow()
        assert answer["id"].equals(answer["_pos"])
        counts = pc.value_counts(answer["_file"].cast(pa.string())).to_pylist()
        assert {c["values"]: c["counts"] for c in counts} == {p: N - len(g) for p, g in gone.items()}
        found = set(zip(answer["_file"].to_pylist(), answer["_pos"].to_pylist(), strict=True))
        assert not any((path, i) in found for path, g in gone.items() for i in g)
