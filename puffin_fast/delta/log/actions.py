"""Reads the actions of the log: Arrow columns with a row for each `add` and `remove`, dictionaries for the others.

The columns `source` and `row` say where the action of a row is. When a commit writes an action again, the action is
read from there with all its fields, also those that this package does not know. Commits stay in memory. A checkpoint is
opened again, and another writer may have replaced it by then, with other rows: the key of the action decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._concurrency.threads import on_threads
from puffin_fast.columns.row_selection import flags_of
from puffin_fast.delta.log.action_types import (
    ACTIONS,
    Actions,
    FileChanges,
    Schema,
    as_json,
    check,
    number,
    parse,
)
from puffin_fast.delta.log.json_rows import KernelColumns, read_rows
from puffin_fast.delta.log.protocol import MAPPING_MODE, PHYSICAL_NAME
from puffin_fast.errors import CorruptDataError

VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
"""The type of a deletion vector's descriptor."""

COLUMNS = {
    "path": pa.string(),
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "stats": pa.string(),
    "deletionVector": VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
}
"""The fields of an `add` that become columns, in addition to those of partition values."""

REMOVE_COLUMNS = {"path": pa.string(), "deletionTimestamp": pa.int64(), "deletionVector": VECTOR}
KEY_COLUMNS = ("path", "deletionVector")
"""The fields of the key of a file (protocol, "Action Reconciliation")."""
RARE_ACTIONS = tuple(name for name in ACTIONS if name not in ("add", "remove"))
"""The actions that are read as dictionaries."""

_METADATA = b'"metaData"'
_FIRST_BYTES, _FIRST_LINES = 1 << 16, 8
"""Of a commit: where its metadata usually is."""
_GROUP_BYTES = 4 << 20
"""Number of bytes of commits that one thread parses at a time."""


def partition_column(name: str) -> str:
    """Returns the name of the column of a partition value, from the column's physical name."""
    return f"partition.{name}"


class Source(Protocol):
    """A part of the log that actions were read from."""

    def actions(self, kind: str, wanted: pa.Table) -> list[dict[str, Any] | None]:
        """Returns complete `add` or `remove` actions; None for one that is not there any more.

        Args:
            wanted: the columns of the actions that were read from here, with their keys and places.
        """


@dataclass(frozen=True)
class FileActions:
    """The actions of several files of the log.

    Attributes:
        adds: `COLUMNS`, one column for each partition value, and `source`, `row`, `version`.
        removes: `REMOVE_COLUMNS`, and `source`, `row`, `version`.
        others: (version, type of the action, action), in order.
        sources: the parts of the log; `source` is an index in it.
    """

    adds: pa.Table
    removes: pa.Table
    others: list[tuple[int, str, dict[str, Any]]]
    sources: list[Source]


# Commits: JSON ----------------------------------------------------------------------------------------------


class _Lines:
    """Actions as lines of JSON.

    Attributes:
        files: version, path and lines of each file; each line ends with a line feed.
        counts: version, path and number of lines of each file.
    """

    def __init__(self, files: Sequence[tuple[int, str, bytes]]) -> None:
        self.files = [
            (version, path, data if data.endswith(b"\n") or not data else data + b"\n")
            for version, path, data in files
        ]
        self.counts = [(version, path, _n_lines(data)) for version, path, data in self.files]
        self._firsts = np.cumsum([0, *(count for _, _, count in self.counts)])
        self._split: dict[int, list[bytes]] = {}

    def one_action_each(self) -> _Lines:
        """Returns lines with one action each, in the usual form; checks all of them.

        JSON may have line feeds between its values, several values may be in one line, and numbers like 5.0 are
        integers: delta-kernel (deltalake, DuckDB) reads these.

        Raises:
            CorruptDataError: a value is not an object of the log; the error names the file, the line and the field.
        """
        return _Lines([(version, path, _one_action_each(data, path)) for version, path, data in self.files])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, at: int) -> bytes:
        number = int(np.searchsorted(self._firsts, at, "right")) - 1
        data, line = self.files[number][2], at - int(self._firsts[number])
        if line < _FIRST_LINES:
            start = 0
            for _ in range(line):
                start = data.index(b"\n", start) + 1
            return data[start : data.index(b"\n", start)]
        if number not in self._split:
            self._split[number] = data.split(b"\n")
        return self._split[number][line]

    def versions(self) -> npt.NDArray[np.int64]:
        """Returns the version of each line."""
        versions = np.array([version for version, _, _ in self.counts], np.int64)
        return np.repeat(versions, [count for _, _, count in self.counts])

    def partition_columns(self) -> Iterator[str]:
        """Returns the physical names of the partition columns of all `metaData` actions in the lines that are found
        at once."""
        with suppress(CorruptDataError):  # `_read` reads all lines, and says what is wrong
            for number, (_, path, data) in enumerate(self.files):
                at = data.find(_METADATA)
                while at >= 0:
                    line = int(self._firsts[number]) + data.count(b"\n", 0, at)
                    if isinstance(found := self.load(line).get("metaData"), dict):
                        yield from physical_partition_columns(found, path)
                    at = data.find(_METADATA, data.index(b"\n", at), _FIRST_BYTES)

    def load(self, at: int, kind: Any = Actions) -> dict[str, Any]:
        """Parses one line, which has the actions of a type.

        Raises:
            CorruptDataError: it is not an object of the log; the error names the file, the line and the field.
        """
        number = int(np.searchsorted(self._firsts, at, "right")) - 1
        line = f"line {at - int(self._firsts[number]) + 1}"
        found: dict[str, Any] = parse(self[at], line, self.counts[number][1], kind)
        return found

    def actions(self, kind: str, wanted: pa.Table) -> list[dict[str, Any] | None]:
        return [self.load(row)[kind] for row in wanted["row"].to_pylist()]


_BLANK = re.compile(r"[ \t\r\n\f\v]*")


def _one_action_each(data: bytes, path: str) -> bytes:
    """See `_Lines.one_action_each`."""
    decoder, lines, line, at, counted = json.JSONDecoder(parse_float=number), list[bytes](), 1, 0, 0
    try:
        text = data.decode("utf-8-sig")
        while (at := _after(_BLANK, text, at)) < len(text):
            line, counted = line + text.count("\n", counted, at), at
            found, at = decoder.raw_decode(text, at)
            check(found, Actions, f"line {line}", path)
            actions = {kind: action for kind, action in found.items() if action is not None}
            if "add" in actions and "remove" in actions:
                raise CorruptDataError(
                    f"line {line}", path=path, expected="one action", found="both add and remove"
                )
            lines += (as_json({kind: action}).encode() for kind, action in actions.items())
    except (ValueError, RecursionError) as error:
        if isinstance(error, CorruptDataError):
            raise
        raise CorruptDataError(f"line {line}", path=path, expected="a JSON object", found=error) from error
    return b"".join(line + b"\n" for line in lines)


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def read_commits(
    files: Iterable[tuple[int, str, bytes]], partition_columns: Callable[[], Sequence[str]], source: int = 0
) -> FileActions:
    """Reads the actions of JSON files.

    Args:
        files: version, path and content of each, ascending.
        partition_columns: the physical names of the partition columns, if these files have no `metaData` action.
        source: the number of the first source.

    Raises:
        CorruptDataError: a line is not an action; the error names the file.
    """
    groups = [_Lines(list(group)) for group in split_by_size(files, _GROUP_BYTES, lambda file: len(file[2]))]
    groups = groups or [_Lines([])]
    names = [name for lines in groups for name in lines.partition_columns()]
    columns = list(dict.fromkeys(names)) or partition_columns()
    parts = _read_all(groups, columns, source)
    where = {version: path for lines in groups for version, path, _ in lines.counts}
    metadata = [(where[at], other) for part in parts for at, name, other in part.others if name == "metaData"]
    names = [name for path, one in metadata for name in physical_partition_columns(one, path)]
    if not set(names) <= set(columns):
        parts = _read_all(groups, list(dict.fromkeys(names)), source)
    return FileActions(
        pa.concat_tables([part.adds for part in parts]),
        pa.concat_tables([part.removes for part in parts]),
        [other for part in parts for other in part.others],
        [one for part in parts for one in part.sources],
    )


def read_file_changes(version: int, path: str, data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Returns the actions of a commit by their types, in order, as complete dictionaries.

    Raises:
        CorruptDataError: a line is not an action; the error names the file, the line and the field.
    """
    lines = _Lines([(version, path, data)])
    try:
        found = [lines.load(at, FileChanges) for at in range(len(lines))]
    except CorruptDataError:
        lines = lines.one_action_each()
        found = [lines.load(at, FileChanges) for at in range(len(lines))]
    return [(kind, action) for line in found for kind, action in line.items() if action is not None]


def _read_all(groups: Sequence[_Lines], columns: Sequence[str], source: int) -> list[FileActions]:
    return list(
        on_threads(lambda at: _read(groups[at], columns, source + at), range(len(groups)), pa.cpu_count())
    )


def _n_lines(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))


def _read(lines: _Lines, columns: Sequence[str], source: int) -> FileActions:
    """Reads the actions of several files."""
    schema = pa.schema(
        [
            ("add", pa.struct([*COLUMNS.items(), *_partition_struct(columns)])),
            ("remove", pa.struct(list(REMOVE_COLUMNS.items()))),
            *((name, pa.struct([])) for name in RARE_ACTIONS),
        ]
    )
    parsed = _parse(lines, schema)
    if parsed is None:
        lines = lines.one_action_each()
        parsed = _read_lines(lines, schema)
    versions = lines.versions()
    add, remove = (parsed[name].combine_chunks() for name in ("add", "remove"))
    is_add, is_remove = (flags_of(column.is_valid()) for column in (add, remove))
    others: list[tuple[int, str, dict[str, Any]]] = []
    for at in np.flatnonzero(_n_actions(parsed, RARE_ACTIONS)).tolist():
        action = lines.load(at)
        others.extend(
            (int(versions[at]), name, action[name]) for name in RARE_ACTIONS if action.get(name) is not None
        )
    rows, gone = np.flatnonzero(is_add), np.flatnonzero(is_remove)
    adds = _flatten(_rows_of(add, rows), columns)
    adds = adds.append_column("source", pa.array(np.full(len(rows), source, np.int32)))
    adds = adds.append_column("row", pa.array(rows))
    adds = adds.append_column("version", pa.array(versions[rows]))
    removed = _rows_of(remove, gone)
    removes = pa.table(
        {name: removed.field(name) for name in REMOVE_COLUMNS}
        | {"source": pa.array(np.full(len(gone), source, np.int32)), "row": pa.array(gone)}
        | {"version": pa.array(versions[gone])}
    )
    check_paths(adds, lines.counts)
    check_paths(removes, lines.counts)
    return FileActions(adds, removes, others, [lines])


def _rows_of(actions: pa.StructArray, rows: npt.NDArray[np.int64]) -> pa.StructArray:
    """Some rows, ascending; without a copy where they follow each other."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return actions.slice(rows[0], len(rows))
    return actions.take(pa.array(rows))


def _partition_struct(columns: Sequence[str]) -> list[tuple[str, pa.DataType]]:
    return [("partitionValues", pa.struct([(name, pa.string()) for name in columns]))] if columns else []


def configuration_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Returns the table properties in a `metaData` action. A value that is not a text counts as its JSON text."""
    given = metadata.get("configuration") or {}
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
        if value is not None
    }


def schema_of(metadata: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Returns the schema in a `metaData` action.

    Args:
        metadata: the action.
        path: the path of the log or its file, for messages.

    Raises:
        CorruptDataError: it is not a schema of Delta; the error names the field.
    """
    found: Mapping[str, Any] = parse(metadata["schemaString"], "schemaString", path, Schema)
    return found


def physical_partition_columns(metadata: Mapping[str, Any], path: str) -> list[str]:
    """Returns the partition columns of a `metaData` action by their names in `partitionValues`.

    Raises:
        CorruptDataError: as `schema_of`.
    """
    mode = (metadata.get("configuration") or {}).get(MAPPING_MODE) or "none"
    names = list(metadata.get("partitionColumns") or [])
    if mode == "none" or not names:
        return names
    fields = schema_of(metadata, path)["fields"]
    physical = {f["name"]: (f.get("metadata") or {}).get(PHYSICAL_NAME, f["name"]) for f in fields}
    return [physical.get(name, name) for name in names]


def _parse(lines: _Lines, schema: pa.Schema) -> pa.Table | None:
    """Returns one row for each line; None if a line is not one action in the usual form."""
    tree = KernelColumns.of(schema)
    if not len(lines) or tree is None:
        return None
    found = tree.read(_joined(lines))
    if found is None or found.num_rows != len(lines):
        return None
    return None if (_n_actions(found, ACTIONS) > 1).any() else found


def _read_lines(lines: _Lines, schema: pa.Schema) -> pa.Table:
    """Returns one row for each line, which is one action."""
    if not len(lines):
        return schema.empty_table()
    try:
        return read_rows(_joined(lines), schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CorruptDataError(
            "actions of the log", path=lines.counts[-1][1], expected="Delta's types", found=error
        ) from error


def _joined(lines: _Lines) -> pa.Buffer:
    return pa.py_buffer(b"".join(data for _, _, data in lines.files))


def _n_actions(parsed: pa.Table, names: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Returns how many of some actions each line has."""
    found = np.zeros(parsed.num_rows, np.uint8)
    for name in names:
        if parsed[name].null_count < parsed.num_rows:
            found += flags_of(parsed[name].combine_chunks().is_valid())
    return found


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
    """Converts empty partition values to null."""
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
