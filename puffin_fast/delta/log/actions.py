"""Actions of the log as Arrow columns: a row for each `add` and `remove`, plain dictionaries for the few others.

A row knows where it came from (`source`, `row`), so that the action itself, with every field that someone may have put
there, can be read again word for word when a commit repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from puffin_fast.errors import CorruptDataError

__all__ = [
    "COLUMNS",
    "REMOVE_COLUMNS",
    "RARE_ACTIONS",
    "FileActions",
    "Source",
    "check_paths",
    "not_empty",
    "partition_column",
    "physical_partition_columns",
    "read_commits",
]

VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
"""A deletion vector's descriptor."""

COLUMNS = {
    "path": pa.string(),
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "stats": pa.string(),
    "deletionVector": VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
}
"""The fields of an `add` that are kept as columns; those of partition values come besides."""

REMOVE_COLUMNS = {"path": pa.string(), "deletionTimestamp": pa.int64(), "deletionVector": VECTOR}
RARE_ACTIONS = (
    "metaData",
    "protocol",
    "domainMetadata",
    "txn",
    "commitInfo",
    "sidecar",
    "checkpointMetadata",
)
_LEAST_BLOCK = 1 << 20


def partition_column(name: str) -> str:
    """The column of a partition value, by the column's physical name."""
    return f"partition.{name}"


class Source(Protocol):
    """Where actions came from."""

    def adds(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """The whole `add` actions of some of its rows."""


@dataclass(frozen=True)
class FileActions:
    """The actions of some files of the log.

    Attributes:
        adds: `COLUMNS`, a column per partition value, and `source`, `row`, `version`.
        removes: path, deletionTimestamp, deletionVector and `version`.
        others: (version, type of the action, action), in order.
        sources: what `source` counts.
    """

    adds: pa.Table
    removes: pa.Table
    others: list[tuple[int, str, dict[str, Any]]]
    sources: list[Source]


# Commits: JSON ----------------------------------------------------------------------------------------------


class _Lines:
    """Actions as lines of JSON."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines

    def adds(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        return [json.loads(self._lines[row])["add"] for row in rows]


def read_commits(
    files: Iterable[tuple[int, str, bytes]], partition_columns: Callable[[], Sequence[str]], source: int = 0
) -> FileActions:
    """The actions of JSON files.

    Args:
        files: version, path and content of each, ascending.
        partition_columns: the physical names of the partition columns of older metadata, where these files bring none.
        source: the number of the first source.

    Raises:
        CorruptDataError: a line that is no action; it names the file.
    """
    lines: list[bytes] = []
    counts: list[tuple[int, str, int]] = []
    for version, path, data in files:
        own = [line for line in data.splitlines() if line.strip()]
        lines.extend(own)
        counts.append((version, path, len(own)))
    versions = np.repeat(
        np.array([version for version, _, _ in counts], np.int64), [count for _, _, count in counts]
    )
    columns = _partition_columns(lines, counts) or partition_columns()
    schema = pa.schema(
        [
            ("add", pa.struct([*COLUMNS.items(), *_partition_struct(columns)])),
            ("remove", pa.struct(list(REMOVE_COLUMNS.items()))),
        ]
    )
    parsed = _parse(lines, counts, schema)
    add, remove = (parsed[name].combine_chunks() for name in ("add", "remove"))
    is_add, is_remove = (column.is_valid().to_numpy(zero_copy_only=False) for column in (add, remove))
    others: list[tuple[int, str, dict[str, Any]]] = []
    for at in np.flatnonzero(~(is_add | is_remove)).tolist():
        action = _loads(lines[at], at, counts)
        others.extend(
            (int(versions[at]), name, action[name])
            for name in RARE_ACTIONS
            if isinstance(action.get(name), dict)
        )
    rows = np.flatnonzero(is_add)
    adds = _flatten(add.take(pa.array(rows)), columns)
    adds = adds.append_column("source", pa.array(np.full(len(rows), source, np.int32)))
    adds = adds.append_column("row", pa.array(rows))
    adds = adds.append_column("version", pa.array(versions[rows]))
    gone = np.flatnonzero(is_remove)
    removed = remove.take(pa.array(gone))
    removes = pa.table(
        {name: removed.field(name) for name in REMOVE_COLUMNS} | {"version": pa.array(versions[gone])}
    )
    check_paths(adds, counts)
    check_paths(removes, counts)
    return FileActions(adds, removes, others, [_Lines(lines)])


def _partition_struct(columns: Sequence[str]) -> list[tuple[str, pa.DataType]]:
    return [("partitionValues", pa.struct([(name, pa.string()) for name in columns]))] if columns else []


def _partition_columns(lines: Sequence[bytes], counts: Sequence[tuple[int, str, int]]) -> Sequence[str]:
    """The physical names of the partition columns, of all metadata in some lines."""
    found: dict[str, None] = {}
    for at, line in enumerate(lines):
        if b'"metaData"' in line and isinstance(metadata := _loads(line, at, counts).get("metaData"), dict):
            found.update(dict.fromkeys(physical_partition_columns(metadata)))
    return list(found)


def physical_partition_columns(metadata: Mapping[str, Any]) -> list[str]:
    """The partition columns of a `metaData` action by the names that `partitionValues` has."""
    mode = (metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
    names = list(metadata.get("partitionColumns") or [])
    if mode == "none" or not names:
        return names
    fields = json.loads(metadata["schemaString"])["fields"]
    physical = {
        f["name"]: f.get("metadata", {}).get("delta.columnMapping.physicalName", f["name"]) for f in fields
    }
    return [physical.get(name, name) for name in names]


def _parse(lines: Sequence[bytes], counts: Sequence[tuple[int, str, int]], schema: pa.Schema) -> pa.Table:
    if not lines:
        return schema.empty_table()
    data = b"\n".join(lines) + b"\n"
    block = max(_LEAST_BLOCK, 2 * max(map(len, lines)) + 2)
    try:
        found = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(block_size=min(block, (1 << 31) - 1)),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        for at, line in enumerate(lines):
            _loads(line, at, counts)
        raise CorruptDataError(
            f"actions of the log: {str(error).splitlines()[0]}", path=counts[-1][1], expected="Delta's types"
        ) from error
    if found.num_rows != len(lines):
        raise CorruptDataError(
            "actions of the log", path=counts[-1][1], expected=len(lines), found=found.num_rows
        )
    return found


def _loads(line: bytes, at: int, counts: Sequence[tuple[int, str, int]]) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        found = str(error)
    if isinstance(found, dict):
        return found
    for _, path, count in counts:
        if at < count:
            raise CorruptDataError(
                f"action {at} of a commit", path=path, expected="a JSON object", found=found
            )
        at -= count
    raise AssertionError("a line of no file")


def check_paths(table: pa.Table, counts: Sequence[tuple[int, str, int]]) -> None:
    if table["path"].null_count:
        version = table.filter(table["path"].is_null())["version"][0].as_py()
        path = next((path for at, path, _ in counts if at == version), counts[-1][1] if counts else "")
        raise CorruptDataError("action of a commit", path=path, expected="a path", found="none")


def _flatten(add: pa.StructArray, columns: Sequence[str]) -> pa.Table:
    found = {name: add.field(name) for name in COLUMNS}
    if columns:
        values = add.field("partitionValues")
        found |= {partition_column(name): not_empty(values.field(name)) for name in columns}
    return pa.table(found)


def not_empty(values: pa.Array) -> pa.Array:
    """A partition value of no character is null."""
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
