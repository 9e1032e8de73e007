"""Every value in the metadata that this package writes beside Java's for the same operations on the same rows.

`EVERYWHERE` and the tables below it explain each one that is not the same. A value that differs and is not explained
fails the test, and so does an explanation that no value needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from tests.interop.conftest import MERGE_ON_READ
from tests.kit.avro_files import read_avro
from tests.kit.tables import iceberg_table, path_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jar, pytest.mark.spark]

N = 600
ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "word": [None if i % 11 == 0 else f"w{i % 3}" for i in range(N)],
        "x": [float(i) / 3 + 1 for i in range(N)],
    }
)
PATH_ID = "2147483546"


Step = tuple[Callable[["Table"], object], str]
STEPS: dict[str, Step] = {
    "delete": (
        lambda t: iceberg.delete(t, "id < 60 and word = 'w1'"),
        "DELETE FROM {t} WHERE id < 60 AND word = 'w1'",
    ),
    "delete more": (
        lambda t: iceberg.delete(t, "id < 120 and word = 'w1'"),
        "DELETE FROM {t} WHERE id < 120 AND word = 'w1'",
    ),
    "update": (
        lambda t: iceberg.update(t, "id = 300", {"x": 5.5}),
        "UPDATE {t} SET x = 5.5 WHERE id = 300",
    ),
    "delete all": (lambda t: iceberg.delete(t, "id >= 0"), "DELETE FROM {t} WHERE id >= 0"),
}

EVERYWHERE = {
    r"metadata/schemas/\d/identifier-field-ids": "PyIceberg writes empty lists, Java leaves them out",
    r"metadata/properties/(owner|write\.parquet\.compression-codec)": "set by Spark's catalog",
    r".+/summary/(spark\.app\.id|app-id|app-name|engine-name|engine-version|iceberg-version)": "name the engine",
    r".+/summary/manifests-(created|replaced|kept)": "Java has two manifests for added and removed entries",
    r".+/summary/(added|removed|total)-files-size": "sizes of other writers of Parquet",
    r".+/(list|manifest)/header/iceberg\.schema": "no reader uses it: the Avro schema has the same",
    r".+/manifest/header/schema-id": "required by the specification since version 2; Java leaves it out",
    r".+/nan_value_counts(/\d+)?": "PyIceberg's writer does not count NaN; empty in vectors",
}
VECTORS = {
    r".+/(column_sizes|value_counts|null_value_counts)": "PyIceberg's inspect.entries() needs maps",
    r".+/(lower|upper)_bounds(/2147483546)?": "PyIceberg needs the path of the data file as a bound",
    r".+/(column_sizes|value_counts|null_value_counts)/2147483539": "null for all: it is inherited, and no column",
}
_KEPT = "Java keeps position-delete files of data files that it removes"
POSITION_DELETE_FILES = {
    r".+/(value_counts|null_value_counts)(/214748354[56])?": "as their footers",
    r".+/avro\.schema/fields/4/type/fields/16/.+": "field 143 is optional in version 2: bounds name the data file",
    r".+/data_file/referenced_data_file": "the same",
    r"delete all/summary/(removed|total)-(delete-files|position-delete-files|position-deletes)": _KEPT,
    r"delete all/sums/1(/.+)?": _KEPT,
    r"delete all/entries/[34]/(status|sequence_number|file_sequence_number)": _KEPT,
}
PARTITIONS = {
    r".+/(first_row_id|(lower|upper)_bounds/2147483540)": "row ids follow the order of the partitions' files",
}


class Kind(NamedTuple):
    """A kind of table: format version, partition columns, and the differences besides those `EVERYWHERE`."""

    version: int
    partition: tuple[str, ...]
    differences: dict[str, str]


KINDS = {
    "v3": Kind(3, (), VECTORS),
    "v2": Kind(2, (), POSITION_DELETE_FILES),
    "v3 partitioned": Kind(3, ("word",), VECTORS | PARTITIONS),
}


def unexplained(found: dict[str, tuple[Any, Any]], kind: Kind) -> tuple[dict[str, tuple[Any, Any]], set[str]]:
    """Returns the differences that no rule explains, and the rules that explain none."""
    rules = EVERYWHERE | kind.differences
    used = {path: {rule for rule in rules if re.fullmatch(rule, path)} for path in found}
    left = {path: both for path, both in found.items() if not used[path]}
    return left, rules.keys() - {rule for some in used.values() for rule in some}


def without_words(schema: Any) -> Any:
    """An Avro schema without documentation: names, types, ids and defaults."""
    if isinstance(schema, dict):
        return {key: without_words(value) for key, value in sorted(schema.items()) if key != "doc"}
    return [without_words(one) for one in schema] if isinstance(schema, list) else schema


def header_of(metadata: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = dict(metadata)
    for name in ("avro.schema", "schema", "partition-spec"):
        if name in found:
            found[name] = without_words(json.loads(found[name]))
    if isinstance(found.get("schema"), dict) and not found["schema"].get("identifier-field-ids"):
        found["schema"].pop("identifier-field-ids", None)
    for name in ("snapshot-id", "parent-snapshot-id"):
        if name in found:
            found[name] = found[name] == "null" or "an id"
    return found


def entry_of(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry without what is random: paths, sizes, snapshot ids; maps by field id."""
    file = dict(entry["data_file"])
    for name, value in file.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            file[name] = {str(one["key"]): one["value"] for one in value}
    for name in ("lower_bounds", "upper_bounds"):
        bounds = file[name] or {}
        if PATH_ID in bounds:
            bounds[PATH_ID] = path_of(bounds[PATH_ID].decode()).suffix
    file["file_path"] = file["file_path"].rpartition(".")[2]
    file["file_size_in_bytes"] = file["file_size_in_bytes"] > 0
    if file.get("referenced_data_file"):
        file["referenced_data_file"] = path_of(file["referenced_data_file"]).suffix
    if file["column_sizes"]:
        file["column_sizes"] = dict.fromkeys(file["column_sizes"], "a size")
    return {**entry, "snapshot_id": entry["snapshot_id"] is not None, "data_file": file}


def order_of(entry: dict[str, Any]) -> tuple[str, ...]:
    file = entry["data_file"]
    lowest = str((file["lower_bounds"] or {}).get("1"))
    return (
        str(file["content"]),
        str(entry["status"]),
        str(file["partition"]),
        lowest,
        str(entry["sequence_number"]),
    )


def snapshot_facts(snapshot: dict[str, Any]) -> dict[str, Any]:
    header, records = read_avro(snapshot["manifest-list"])
    headers, entries = [], []
    sums: dict[str, dict[str, int]] = {}
    for record in records:
        metadata, found = read_avro(record["manifest_path"])
        headers.append(header_of(metadata))
        own_or_live = (
            one for one in found if one["status"] != 2 or one["snapshot_id"] == snapshot["snapshot-id"]
        )
        entries += map(entry_of, own_or_live)
        of_content = sums.setdefault(str(record["content"]), {})
        if record["added_snapshot_id"] == snapshot["snapshot-id"]:
            for name, value in record.items():
                if name.endswith("_count"):
                    of_content[name] = of_content.get(name, 0) + value
    own = {
        key: value
        for key, value in snapshot.items()
        if key not in ("snapshot-id", "parent-snapshot-id", "timestamp-ms", "manifest-list", "summary")
    }
    return {
        "snapshot": own,
        "summary": snapshot["summary"],
        "list": {"header": header_of(header), "fields": sorted(records[0]) if records else []},
        "sums": sums,
        "manifest": {"header": headers[0] if headers else {}},
        "entries": sorted(entries, key=order_of),
    }


def facts_of(table: Table, names: list[str]) -> dict[str, Any]:
    document = json.loads(path_of(table.refresh().metadata_location).read_text())
    left_out = ("snapshots", "snapshot-log", "metadata-log", "location", "table-uuid", "current-snapshot-id")
    random = (*left_out, "last-updated-ms", "refs", "statistics", "partition-statistics")
    found = {"metadata": {key: value for key, value in document.items() if key not in random}}
    snapshots = sorted(document["snapshots"], key=lambda one: one["sequence-number"])
    return found | {name: snapshot_facts(one) for name, one in zip(names, snapshots, strict=True)}


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each value with its path, the keys of mappings too."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from flat(one, f"{path}/{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict | list):
        for number, one in enumerate(value):
            yield from flat(one, f"{path}/{number}")
    else:
        yield path, value


def unlike(ours: dict[str, Any], java: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    one, other = dict(flat(ours)), dict(flat(java))
    none = "not there"
    every = {path: (one.get(path, none), other.get(path, none)) for path in (*one, *other)}
    return {path: both for path, both in every.items() if repr(both[0]) != repr(both[1])}


@pytest.mark.parametrize("name", KINDS)
def test_values_are_javas_or_explained(
    name: str, iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    kind = KINDS[name]
    sql = f"{shared_catalog.name}.{namespace}.java"
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in MERGE_ON_READ.items())
    by = f"PARTITIONED BY ({', '.join(kind.partition)})" if kind.partition else ""
    iceberg_spark.sql(
        f"CREATE TABLE {sql} (id bigint, word string, x double) USING iceberg {by} "
        f"TBLPROPERTIES ('format-version' = '{kind.version}', {properties})"
    )
    ours = iceberg_table(
        shared_catalog,
        ROWS.schema,
        name=f"{namespace}.ours",
        version=kind.version,
        partition=kind.partition,
        properties=MERGE_ON_READ,
    )
    rows = (
        iceberg_spark.createDataFrame(ROWS).coalesce(1).sortWithinPartitions(*kind.partition or ["id"], "id")
    )
    for _ in range(2):
        iceberg.append(ours, ROWS)
        rows.writeTo(sql).append()
    for do, statement in STEPS.values():
        do(ours)
        iceberg_spark.sql(statement.format(t=sql))
    names = ["append", "append again", *STEPS]
    theirs = shared_catalog.load_table(f"{namespace}.java")
    assert unexplained(unlike(facts_of(ours, names), facts_of(theirs, names)), kind) == ({}, set())
