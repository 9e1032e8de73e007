"""The same operations by Spark, whose logs are golden data, and by this package; `differences` compares their logs.

``python -m tests.delta.log.log_actions FOLDER`` has Spark write the tables of `KINDS` whose names begin with ``log_of``.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast import delta
from tests.kit.tables import delta_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([
    pa.field("id", pa.int64(), nullable=False), ("s", pa.string()), ("x", pa.float64()), ("dec", pa.decimal128(12, 2)), ("day", pa.date32()),
    ("at", pa.timestamp("us", "UTC")), ("flag", pa.bool_()), ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ("l", pa.list_(pa.int32())), ("none", pa.string()), ("part", pa.string()), ("year", pa.int32()),
])  # fmt: skip
"""The columns of each table."""


def rows(first: int, last: int) -> pa.Table:
    def row(i: int) -> dict[str, Any]:
        odd = i % 2 == 1
        return {
            "id": i, "s": "é" * 40 if i == 3 else f"s{i % 7}", "x": i / 4, "dec": Decimal(i) / 4, "day": date(2020, 1, 1 + i % 28),
            "at": datetime(2020, 1, 1, 0, 0, i % 60, 123456, UTC), "flag": odd, "st": {"a": i, "b": f"b{i % 3}"} if odd else None,
            "l": [i], "none": None, "part": "a b/é", "year": 2020,
        }  # fmt: skip

    return pa.Table.from_pylist([row(i) for i in range(first, last)], SCHEMA)


@dataclass(frozen=True)
class Kind:
    """How a table is made whose log by Spark is kept.

    Attributes:
        rows: makes the rows of some ids.
        steps: the operations after the creation, one version each.
        columns: as Spark's SQL names them, of tables that `by_spark` writes.
    """

    rows: Callable[[int, int], pa.Table]
    partitions: tuple[str, ...]
    properties: dict[str, str]
    steps: tuple[tuple[Any, ...], ...]
    columns: str = "id BIGINT, v STRING, part STRING"


SHORT_SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("part", pa.string())])


def short_rows(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    columns = ([*ids], [f"v{i % 7}" for i in ids], [f"p {i % 3}" for i in ids])
    return pa.table([*columns], SHORT_SCHEMA)


def ids_of(divisor: int) -> str:
    return f"id in ({', '.join(map(str, range(0, 300, divisor)))})"


SHORT = (("append", 0, 300), ("delete", ids_of(10)), ("delete", ids_of(21)))
VERBS = (
    ("append", 0, 30), ("append", 30, 60), ("delete", "id < 6"), ("update", "id >= 6 and id < 12"), ("upsert", 50, 66),
    ("optimize",), ("replace", "id >= 60", 60, 63), ("delete", "part = 'p 0'"), ("overwrite", 90, 96), ("delete", "true"),
)  # fmt: skip
FEATURES = {
    "delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true", "delta.columnMapping.mode": "name",
    "delta.enableInCommitTimestamps": "true",
}  # fmt: skip
KINDS = {
    "log_of_operations": Kind(rows, (), {"delta.checkpointInterval": "4"}, (
        ("append", 0, 100), ("append", 100, 200), ("delete", "id < 10"), ("delete", "id < 20"), ("delete", "id < 100"),
        ("update", "id < 110"), ("upsert", 190, 210), ("optimize",), ("replace", "id >= 150", 150, 160),
        ("overwrite", 400, 410), ("delete", "id < 0"), ("delete", "true"),
    ), "id BIGINT NOT NULL, s STRING, x DOUBLE, dec DECIMAL(12, 2), day DATE, at TIMESTAMP, flag BOOLEAN, "
       "st STRUCT<a: INT, b: STRING>, l ARRAY<INT>, none STRING, part STRING, year INT"),
    "log_of_partitions": Kind(short_rows, ("part",), {}, VERBS),
    "log_of_features": Kind(short_rows, ("part",), FEATURES, VERBS),
    "spark_partitioned": Kind(short_rows, ("part",), {}, SHORT),
    "spark_v1_checkpoint": Kind(short_rows, ("part",), {"delta.checkpointInterval": "2"}, SHORT),
    "spark_many_features": Kind(short_rows, ("part",), FEATURES, SHORT),
}  # fmt: skip
"""By the folder of the golden table."""


def by_spark(spark: SparkSession, table: Path, kind: Kind) -> None:
    """Writes a golden table, of which only the log is kept."""
    here, text = f"delta.`{table}`", kind.rows(0, 0).schema.names[1]
    properties = {"delta.enableDeletionVectors": "true"} | kind.properties
    stated = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
    parts = f"PARTITIONED BY ({', '.join(kind.partitions)})" if kind.partitions else ""
    spark.sql(f"CREATE TABLE {here} ({kind.columns}) USING delta {parts} TBLPROPERTIES ({stated})")

    def frame(first: int, last: int) -> Any:
        return spark.createDataFrame(kind.rows(first, last), kind.columns).coalesce(1)

    for step in kind.steps:
        match step:
            case "append", int(first), int(last):
                frame(first, last).write.format("delta").mode("append").save(str(table))
            case "delete", str(where):
                spark.sql(f"DELETE FROM {here} WHERE {where}")
            case "update", str(where):
                spark.sql(f"UPDATE {here} SET {text} = 'new' WHERE {where}")
            case "upsert", int(first), int(last):
                frame(first, last).createOrReplaceTempView("given")
                spark.sql(
                    f"MERGE INTO {here} t USING given s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
                    "WHEN NOT MATCHED THEN INSERT *"
                )
            case ("optimize",):
                spark.sql(f"OPTIMIZE {here}")
            case "replace", str(where), int(first), int(last):
                writer = frame(first, last).write.format("delta").mode("overwrite")
                writer.option("replaceWhere", where).save(str(table))
            case "overwrite", int(first), int(last):
                frame(first, last).write.format("delta").mode("overwrite").save(str(table))


def by_us(table: Path, kind: Kind) -> None:
    schema = kind.rows(0, 0).schema
    delta_table(table, schema, partition=kind.partitions, properties=kind.properties)
    for step in kind.steps:
        match step:
            case "append", int(first), int(last):
                delta.append(table, kind.rows(first, last))
            case "delete", str(where):
                delta.delete(table, where)
            case "update", str(where):
                delta.update(table, where, {schema.names[1]: "new"})
            case "upsert", int(first), int(last):
                delta.upsert(table, kind.rows(first, last), "id", skip_unchanged=False)
            case ("optimize",):
                delta.rewrite_data_files(table, min_deleted=0.0, min_input_files=2)
            case "replace", str(where), int(first), int(last):
                delta.overwrite(table, kind.rows(first, last), where)
            case "overwrite", int(first), int(last):
                delta.overwrite(table, kind.rows(first, last))


UNIQUE = {
    "timestamp", "inCommitTimestamp", "txnId", "modificationTime", "deletionTimestamp", "createdTime", "id", "pathOrInlineDv",
    "engineInfo", "size", "sizeInBytes", "offset",
}  # fmt: skip
"""Fields whose values differ in each table: only their types are compared."""

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NESTED = ("stats", "schemaString", "configuration", "properties", "partitionBy", "predicate")
"""Fields with JSON as text."""


def flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of an action by their paths; JSON in texts is parsed, and what is unique becomes its type."""
    name = at.rpartition(".")[2]
    if isinstance(value, str) and name in NESTED:
        with suppress(ValueError):
            yield from flat(json.loads(value, parse_float=Decimal), f"{at}(json)")
            return
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{at}.{UUID.sub('UUID', key)}" if at else key)
    elif isinstance(value, list) and value and at != "partitionColumns":
        if all(isinstance(one, str) for one in value):
            yield at, sorted(value)
        else:
            for number, one in enumerate(value):
                yield from flat(one, f"{at}[{number}]")
    elif name in UNIQUE and at.count(".") <= 2 and "(json)" not in at:
        yield at, type(value).__name__
    elif re.search("Bytes|FileSize|Ms$", name):
        yield at, f"{type(value).__name__}{' of digits' if str(value).isdigit() else ''}"
    elif isinstance(value, str):
        yield at, UUID.sub("UUID", value)
    else:
        yield at, value


def commits(table: Path) -> list[dict[str, list[dict[str, Any]]]]:
    """Of each version, the leaves of its actions by their kind, in an order that does not depend on names of files."""
    found = []
    for path in sorted((table / "_delta_log").glob("*.json")):
        kinds: dict[str, list[dict[str, Any]]] = {}
        for line in path.read_text().splitlines():
            ((kind, action),) = json.loads(line, parse_float=Decimal).items()
            kinds.setdefault(kind, []).append(dict(flat(action)))
        for actions in kinds.values():
            actions.sort(key=order)
        found.append(kinds)
    return found


def order(action: dict[str, Any]) -> list[str]:
    names = ("deletionVector.cardinality", "stats(json).minValues.id", "stats(json).numRecords")
    partition = [str(value) for name, value in action.items() if name.startswith("partitionValues.")]
    return [*partition, *(str(action.get(name)) for name in names)]


def checkpoints(table: Path) -> list[dict[str, list[dict[str, Any]]]]:
    """Of each checkpoint, the types of its columns, and the leaves of its actions as `commits` has them."""
    found = []
    for path in sorted((table / "_delta_log").glob("*.checkpoint*.parquet")):
        rows = pq.ParquetFile(path).read()
        kinds = {"columns": [{name: str(kind) for name, kind in types(rows.schema)}]}
        for row in rows.to_pylist(maps_as_pydicts="strict"):
            ((kind, action),) = ((k, v) for k, v in row.items() if v is not None)
            kinds.setdefault(kind, []).append({k: v for k, v in flat(action) if v is not None})
        for actions in kinds.values():
            actions.sort(key=order)
        found.append(kinds)
    return found


def types(fields: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for field in fields:
        name = above + field.name
        if pa.types.is_struct(field.type):
            yield from types(field.type, f"{name}.")
        elif pa.types.is_map(field.type):
            yield name, f"map of {field.type.key_type}, {field.type.item_type}"
        elif pa.types.is_list(field.type):
            yield name, f"list of {field.type.value_type}"
        else:
            yield name, field.type


def differences(ours: Path, theirs: Path) -> dict[str, tuple[Any, Any]]:
    """The values of two logs of the same operations that differ in value or type, by operation, version and field."""
    found: dict[str, tuple[Any, Any]] = {}
    for what, read in (("", commits), ("checkpoint", checkpoints)):
        mine, other = read(ours), read(theirs)
        if len(mine) != len(other):
            found[f"{what or 'commit'}s"] = (len(mine), len(other))
        for version, (one, two) in enumerate(zip(mine, other, strict=False)):
            for kind in {**two, **one}:
                a, b = one.get(kind, []), two.get(kind, [])
                place = f"{what or one['commitInfo'][0]['operation']} {version}: {kind}"
                if len(a) != len(b):
                    found[f"{place} actions"] = (len(a), len(b))
                for x, y in zip(a, b, strict=False):
                    for name in {**y, **x}:
                        p, q = x.get(name, "absent"), y.get(name, "absent")
                        if p != q or type(p) is not type(q):
                            found.setdefault(f"{place}.{name}", (p, q))
    files = [table / "_delta_log/_last_checkpoint" for table in (ours, theirs)]
    hints = [json.loads(path.read_text()) if path.exists() else {} for path in files]
    for name in {**hints[1], **hints[0]}:
        p, q = (hint.get(name, "absent") for hint in hints)
        if name != "sizeInBytes" and p != q:
            found[f"_last_checkpoint.{name}"] = (p, q)
    return found


def main() -> None:
    from tests.delta.spark.with_spark import session

    folder = Path(sys.argv[1])
    spark = session(folder / "spark")
    try:
        for name, kind in KINDS.items():
            if name.startswith("log_of"):
                by_spark(spark, folder / name, kind)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
