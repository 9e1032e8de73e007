"""Manifests and plans by columns are equal to those that are made entry by entry."""

from __future__ import annotations

import pickle
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, TruncateTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.utils.decimal import bytes_to_decimal

from puffin_fast.avro.file import read_avro
from puffin_fast.avro.schema import PartitionColumn
from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg import FileTask, plan_files
from puffin_fast.iceberg.manifest import (
    ADDED,
    DATA,
    DELETED,
    EXISTING,
    ManifestEntry,
    ManifestFile,
    manifests_of,
    read_manifest,
)
from puffin_fast.iceberg.manifest.columns import Paths
from puffin_fast.iceberg.manifest.entries import ENTRY_NAMES
from puffin_fast.iceberg.manifest.reader import ENTRY_FIELDS, read_columns
from puffin_fast.iceberg.plan.delete_index import DeleteIndex
from puffin_fast.iceberg.plan.files import resolve
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.tasks import METRICS
from tests.iceberg.plan.planned import IO, data, equal, positions, table_of, vector
from tests.kit.faults import RacingCatalog

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession


def entry_by_entry(manifest: ManifestFile, spec: Any) -> list[ManifestEntry]:
    """Reads a manifest by fastavro and fills in what it inherits, by the text of the specification."""
    file, found, next_id = read_avro(IO, manifest.path, ENTRY_NAMES), [], manifest.first_row_id
    by_id = {column.field_id: column for column in file.plain.partition}
    for record in file.records():
        fields = {name: record.get(name) for name in ENTRY_FIELDS}
        for name in METRICS:
            if fields[name] is not None:
                fields[name] = {pair["key"]: pair["value"] for pair in fields[name]}
        fields["content"] = fields["content"] or DATA
        fields["file_format"] = fields["file_format"].upper()
        fields["spec_id"] = manifest.spec_id
        columns = [by_id.get(field.field_id) for field in spec.fields]
        fields["partition"] = tuple(_value(column, record) if column else None for column in columns)
        if fields["snapshot_id"] is None:
            fields["snapshot_id"] = manifest.added_snapshot_id
        for name in ("sequence_number", "file_sequence_number"):
            if fields[name] is None and (fields["status"] == ADDED or manifest.sequence_number == 0):
                fields[name] = manifest.sequence_number
        if fields["status"] != DELETED and (manifest.content != DATA or next_id is None):
            fields["first_row_id"] = None
        elif fields["status"] != DELETED and fields["first_row_id"] is None:
            assert next_id is not None
            fields["first_row_id"], next_id = next_id, next_id + fields["record_count"]
        found.append(ManifestEntry(**fields))
    return found


def _value(column: PartitionColumn, record: dict[str, Any]) -> Any:
    value = record[column.name]
    return value if column.scale is None or value is None else bytes_to_decimal(value, column.scale)


def check_manifests(table: Table) -> int:
    """Compares all manifests of a table's snapshots; returns the number of entries."""
    n_entries = 0
    for snapshot in table.snapshots():
        for manifest in manifests_of(table.io, snapshot):
            wanted = entry_by_entry(manifest, table.specs()[manifest.spec_id])
            assert read_manifest(table.io, manifest, table.specs(), live_only=False) == wanted
            live = [entry for entry in wanted if entry.status != DELETED]
            columns = read_columns(table.io, manifest, table.specs())
            assert columns.entries() == live
            numbers, partitions = columns.partitions()
            assert [partitions[number] for number in numbers] == [entry.partition for entry in live]
            rows = np.arange(len(live))[::-3]
            assert columns.take(rows).entries() == [live[row] for row in rows]
            asked = {entry.file_path for entry in live[::2]}
            among = Paths(asked).among(columns)
            assert among.tolist() == [entry.file_path in asked for entry in live]
            n_entries += len(wanted)
    return n_entries


def random_entries(rng: random.Random, version: int, n: int) -> list[ManifestEntry]:
    """Files of several specs, with all kinds of deletes that a version has."""
    places: list[tuple[int, tuple[Any, ...]]] = [
        (0, ()),
        (1, (1,)),
        (1, (None,)),
        (2, (0.5,)),
        (2, (None,)),
        (3, (None,)),
    ]
    entries: list[ManifestEntry] = []

    def metrics() -> dict[str, Any]:
        low = rng.randrange(-20, 20)
        pack = struct.pack(rng.choice(["<q", "<q", "<i"]), low)
        lower = rng.choice([None, {}, {1: pack}, {1: pack, 4: b"a"}])
        upper = rng.choice([None, {}, {1: pack}, {1: pack, 4: "ü".encode()[:1]}])
        return {
            "lower_bounds": lower,
            "upper_bounds": upper,
            "value_counts": rng.choice([None, {1: 10, 2: 10}]),
            "null_value_counts": rng.choice([None, {1: rng.choice([0, 9 if lower or upper else 10])}]),
            "split_offsets": rng.choice([None, [], [4, 99]]),
            "column_sizes": rng.choice([None, {1: 5}]),
            "key_metadata": rng.choice([None, None, b"k"]),
            "sort_order_id": rng.choice([None, 0]),
        }

    for number in range(n):
        spec_id, partition = rng.choice(places)
        path = f"file:///ü/d{number}"
        status = rng.choice([ADDED, EXISTING, EXISTING, DELETED])
        sequence_number = rng.choice([None, 50]) if status == ADDED else rng.randrange(1, 50)
        where: dict[str, Any] = {"spec_id": spec_id, "partition": partition}
        mine = data(path, 1, **where, **metrics())
        row_id = rng.choice([None, 1000 * number]) if version == 3 else None
        numbers = {"sequence_number": sequence_number, "file_sequence_number": sequence_number}
        entries.append(
            replace(mine, status=status, first_row_id=row_id, record_count=rng.randrange(99), **numbers)
        )
        deletes = []
        if version == 3 and rng.random() < 0.5:
            at = rng.randrange(100)
            deletes.append(
                vector(path, rng.randrange(1, 99), f"v{at}", **where, content_offset=1000 * number)
            )
        if version > 1 and rng.random() < 0.3:
            deletes.append(positions(f"p{number}", rng.randrange(1, 99), (path, path), **where))
        if version > 1 and rng.random() < 0.2:
            deletes.append(
                positions(
                    f"q{number}", rng.randrange(1, 99), rng.choice([None, ("", "file:///ü/d5")]), **where
                )
            )
        if version > 1 and rng.random() < 0.1:
            deletes.append(positions(f"r{number}", 60, referenced_data_file=path, **where))
        if version > 1 and rng.random() < 0.1:
            deletes.append(equal(f"e{number}", rng.randrange(1, 99), **where))
        entries += [replace(entry, status=rng.choice([EXISTING] * 9 + [DELETED])) for entry in deletes]
    rng.shuffle(entries)
    return entries


def outcome(tasks: Sequence[FileTask]) -> list[Any]:
    return [
        (
            task.data,
            task.vector,
            sorted(map(key, task.position_deletes)),
            sorted(map(key, task.equality_deletes)),
        )
        for task in tasks
    ]


def key(entry: ManifestEntry) -> tuple[str, int]:
    return entry.file_path, entry.content_offset or 0


FILTERS = [
    None, "id < 3", "id = 0", "k = 1", "k is null", "x > 0", "s = 'b'", "id > 100", "k = 1 and id < 10",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_plans_are_those_that_are_made_entry_by_entry(tmp_path: Path, seed: int) -> None:
    rng, version = random.Random(seed), 2 + seed % 2
    table = table_of(tmp_path, *random_entries(rng, version, rng.choice([1, 7, 60])), version=version)
    assert check_manifests(table)
    snapshot, schema = resolve(table)
    assert snapshot is not None
    every = [
        entry
        for manifest in manifests_of(table.io, snapshot)
        for entry in entry_by_entry(manifest, table.specs()[manifest.spec_id])
        if entry.status != DELETED
    ]
    for text in FILTERS:
        given: dict[str, Any] = {} if text is None else {"row_filter": text}
        plan = plan_files(table, metrics=True, **given)
        live = [entry for entry in every if entry.content == DATA]
        if text is not None:
            may_match = RowFilter.bind(text, schema).may_match(schema)
            pruned = {task.data.file_path for task in plan.tasks}
            assert pruned <= {entry.file_path for entry in live if may_match(entry)}
            live = [entry for entry in live if entry.file_path in pruned]
        index = DeleteIndex(table.metadata)
        index.add(entry for entry in every if entry.content != DATA)
        wanted = index.tasks(live)
        found = outcome(plan.tasks)
        for (_, its, *_), (_, mine, *_) in zip(outcome(wanted), found, strict=True):
            assert (its is None) == (mine is None)
            assert its is None or mine is None or key(its) == key(mine)
        assert [(task[0], *task[2:]) for task in found] == [(task[0], *task[2:]) for task in outcome(wanted)]
        if text is None:
            assert sorted(map(key, plan.delete_files)) == sorted(map(key, index.entries))
            used = {key(entry) for task in wanted for entry in task.deletes}
            assert {key(e) for e in plan.unused} == {key(e) for e in index.entries} - used


def test_tasks_are_made_when_they_are_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n, made = 1000, 0
    entries = [data(f"d{at}", 1) for at in range(n)] + [
        vector(f"d{at}", 2, content_offset=at) for at in range(n)
    ]
    table = table_of(tmp_path, *entries)
    init = ManifestEntry.__init__

    def counted(self: ManifestEntry, *args: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        init(self, *args, **named)

    monkeypatch.setattr(ManifestEntry, "__init__", counted)
    plan = plan_files(table)
    assert len(plan.tasks) == len(plan.delete_files) == n
    assert made == 0
    task = plan.tasks[700]
    assert (task.data.file_path, task.vector and task.vector.content_offset) == ("d700", 700)
    assert made <= 128
    assert plan.tasks[700] is task
    assert [task.data.file_path for task in plan.tasks[-2:]] == ["d998", "d999"]
    assert [task.vector for task in plan.tasks] == list(plan.delete_files)
    assert made == 2 * n
    assert plan.unused == []
    assert pickle.loads(pickle.dumps(plan.tasks)) == plan.tasks
    with pytest.raises(IndexError):
        plan.tasks[n]


@pytest.mark.parametrize("older", [False, True])
def test_vectors_of_one_data_file_or_one_blob_are_refused(tmp_path: Path, older: bool) -> None:
    first = [data("d", 1), data("e", 1), vector("d", 2, "v1", content_offset=4)]
    second = vector("d", 1 if older else 3, "v2", content_offset=9)
    with pytest.raises(
        CorruptDataError, match="two deletion vectors for one data file: v1 offset 4 and v2 offset 9"
    ):
        plan_files(table_of(tmp_path, *first, second))
    shared = vector("e", 3, "v1", content_offset=4)
    with pytest.raises(
        CorruptDataError, match="data files of a deletion vector: expected one, found d and e"
    ):
        plan_files(table_of(tmp_path, *first, shared))
    lost = replace(vector("d", 2, "v3"), referenced_data_file=None)
    with pytest.raises(CorruptDataError, match="v3: deletion vector without referenced_data_file"):
        plan_files(table_of(tmp_path, data("d", 1), lost))


def test_manifests_of_pyiceberg_are_read_as_entry_by_entry(racing: RacingCatalog) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, TruncateTransform(1), "s_trunc"))
    for version in ("1", "2"):
        properties = {"format-version": version, "write.metadata.metrics.default": "truncate(2)"}
        table = racing.create_table(f"n.t{version}", schema, partition_spec=spec, properties=properties)
        for start in range(3):
            rows = {
                "id": range(start, 40),
                "s": [None if n % 9 == 0 else "äbcdef"[n % 6 :] for n in range(start, 40)],
            }
            table.append(pa.table(rows, schema=pa.schema([("id", pa.int64()), ("s", pa.string())])))
        table.delete("id = 7")
        with table.update_spec() as update:
            update.add_field("id", BucketTransform(4))
        table.append(pa.table({"id": [1, None], "s": ["x", None]}))
        assert check_manifests(table.refresh()) > 20


@pytest.mark.spark
@pytest.mark.jar
@pytest.mark.parametrize("version", [2, 3])
def test_manifests_of_spark_are_read_as_entry_by_entry(
    shared_catalog: SqlCatalog, namespace: str, iceberg_spark: SparkSession, version: int
) -> None:
    name = f"{shared_catalog.name}.{namespace}.t"
    modes = ", ".join(f"'write.{verb}.mode'='merge-on-read'" for verb in ("delete", "update", "merge"))
    iceberg_spark.sql(
        f"CREATE TABLE {name} (id BIGINT, s STRING, d DECIMAL(20, 3), e DECIMAL(20, 3), day DATE) USING iceberg "
        f"PARTITIONED BY (day, truncate(2, s), d, e) TBLPROPERTIES ('format-version'='{version}', {modes})"
    )
    words = ["NULL" if n % 5 == 0 else f"'w{n % 3}'" for n in range(40)]
    values = ", ".join(
        f"({n}, {word}, {n % 4}.5, {n % 2}.25, DATE '2024-01-0{1 + n % 3}')" for n, word in enumerate(words)
    )
    iceberg_spark.sql(f"INSERT INTO {name} VALUES {values}")
    iceberg_spark.sql(f"DELETE FROM {name} WHERE id % 4 = 1")
    iceberg_spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(3, id)")
    iceberg_spark.sql(f"UPDATE {name} SET s = 'new' WHERE id % 7 = 2")
    iceberg_spark.sql(f"INSERT INTO {name} VALUES {values}")
    table = shared_catalog.load_table(f"{namespace}.t")
    assert check_manifests(table) > 50
    assert {task.data.partition[3] for task in plan_files(table).tasks} == {
        Decimal("0.250"),
        Decimal("1.250"),
    }
    snapshot, _ = resolve(table)
    assert snapshot is not None
    every = [
        entry
        for manifest in manifests_of(table.io, snapshot)
        for entry in read_manifest(table.io, manifest, table.specs())
    ]
    index = DeleteIndex(table.metadata)
    index.add(entry for entry in every if entry.content != DATA)
    wanted = index.tasks([entry for entry in every if entry.content == DATA])
    found = plan_files(table, metrics=True).tasks
    assert [[task.data, [*map(key, task.deletes)]] for task in found] == [
        [task.data, [*map(key, task.deletes)]] for task in wanted
    ]
    assert sum(len(task.deletes) for task in found)


def rewrite(
    path: Path,
    change: Callable[[list[dict[str, Any]]], None],
    partition: Callable[[Any], dict[str, Any]] | None = None,
) -> None:
    """Writes a manifest again, with another schema of its ``data_file``, and the partitions of values of ``k``."""
    with path.open("rb") as source:
        manifest = fastavro.reader(source)
        schema: Any = manifest.writer_schema
        records, header = list(manifest), {k: v for k, v in manifest.metadata.items() if k[:5] != "avro."}
    change(next(field["type"]["fields"] for field in schema["fields"] if field["name"] == "data_file"))
    for record in records if partition else ():
        record["data_file"]["partition"] = partition(*record["data_file"]["partition"].values())
    with path.open("wb") as sink:
        fastavro.writer(sink, schema, records, metadata=header)


def field_of(fields: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(field for field in fields if field["name"] == name)


def test_partition_values_may_be_anywhere_in_the_records(tmp_path: Path) -> None:
    files = [data(f"d{at}", 1, spec_id=1, partition=(at % 3 or None,)) for at in range(9)]
    table = table_of(tmp_path, *files)
    rewrite(
        tmp_path / "1-0.avro",
        lambda fields: fields.append(fields.pop([field["name"] for field in fields].index("partition"))),
    )
    for text, wanted in (("k = 1", ["d1", "d4", "d7"]), ("k is null", ["d0", "d3", "d6"])):
        assert [task.data.file_path for task in plan_files(table, row_filter=text).tasks] == wanted
    assert check_manifests(table) == 9


def test_the_pairs_of_a_map_may_have_the_value_before_the_key(tmp_path: Path) -> None:
    low, high = struct.pack("<q", 1), struct.pack("<q", 5)
    file = data("d", 1, spec_id=1, partition=(1,), lower_bounds={1: low}, upper_bounds={1: high})
    deletes = positions(
        "p", 2, ("d", "d"), spec_id=1, partition=(2,)
    )  # found by its bounds, not its partition
    table = table_of(tmp_path, file, deletes)

    def value_first(fields: list[dict[str, Any]]) -> None:
        for name in ("lower_bounds", "upper_bounds"):
            pair = next(part for part in field_of(fields, name)["type"] if part != "null")["items"]
            pair["fields"].reverse()

    for path in sorted(tmp_path.glob("1-*.avro")):
        rewrite(path, value_first)
    (task,) = plan_files(table, metrics=True).tasks
    assert (task.data.lower_bounds, task.data.upper_bounds) == ({1: low}, {1: high})
    assert [entry.file_path for entry in task.position_deletes] == ["p"]
    assert len(plan_files(table, row_filter="id = 6").tasks) == 0
    assert check_manifests(table) == 2


def test_an_optional_partition_struct_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, data("d", 1, spec_id=1, partition=(1,)))

    def optional(fields: list[dict[str, Any]]) -> None:
        field = field_of(fields, "partition")
        field["type"] = ["null", field["type"]]

    rewrite(tmp_path / "1-0.avro", optional)
    with pytest.raises(CorruptDataError, match="partition of a manifest entry: expected a record"):
        plan_files(table)


def test_partition_columns_of_one_decimal_type_have_each_its_scale(tmp_path: Path) -> None:
    table_of(tmp_path, *(data(f"d{at}", 1, spec_id=1, partition=(at,)) for at in range(3)))
    path = tmp_path / "1-0.avro"
    fixed = {
        "type": "fixed",
        "name": "decimal_9_2",
        "size": 4,
        "logicalType": "decimal",
        "precision": 9,
        "scale": 2,
    }

    def decimals(fields: list[dict[str, Any]]) -> None:
        field_of(fields, "partition")["type"]["fields"] = [
            {"name": "k", "type": ["null", fixed], "field-id": 1000, "default": None},
            {"name": "l", "type": ["null", "decimal_9_2"], "field-id": 1001, "default": None},
        ]

    rewrite(path, decimals, lambda k: {"k": Decimal(k) / 4, "l": None if k == 1 else Decimal(k)})
    entries = read_columns(IO, ManifestFile(f"file://{path}", 1, 1, DATA, 1)).entries()
    assert [entry.partition for entry in entries] == [
        (Decimal("0.00"), Decimal("0.00")),
        (Decimal("0.25"), None),
        (Decimal("0.50"), Decimal("2.00")),
    ]
