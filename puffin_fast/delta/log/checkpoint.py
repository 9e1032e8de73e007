"""Reads checkpoints: the actions of a version in Parquet files, or in a JSON file that refers to Parquet files.

Only the columns that determine the live files are read. A complete action is read when a commit writes it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from puffin_fast.columns.row_selection import flags_of
from puffin_fast.delta.log.action_types import Actions, as_json, check
from puffin_fast.delta.log.actions import (
    COLUMNS,
    KEY_COLUMNS,
    RARE_ACTIONS,
    REMOVE_COLUMNS,
    FileActions,
    Source,
    check_paths,
    not_empty,
    partition_column,
    physical_partition_columns,
    read_commits,
)
from puffin_fast.delta.log.decoded_size import check_decoded
from puffin_fast.delta.log.paths import keys_of
from puffin_fast.delta.log.storage import LOG_FOLDER, TableStorage
from puffin_fast.errors import ConflictError, CorruptDataError, LimitExceededError, NotFoundError
from puffin_fast.limits import most_inflated
from puffin_fast.parquet.arrow_file import ArrowFile
from puffin_fast.rows.files.files import reading

SIDECARS = f"{LOG_FOLDER}/_sidecars/"
"""The folder that paths of sidecars are relative to."""
_BATCH_ROWS = 1 << 12
_ATTEMPTS = 4
_LEAST_DECODED = 64 << 20
"""Decoded bytes that are allowed for a checkpoint of any size."""


class _Parquet:
    """Actions in the rows of a Parquet file; complete actions are read by row groups.

    Another writer may have replaced the file since it was read, so a row counts only if it still has the key of the
    action.
    """

    def __init__(self, storage: TableStorage, location: str) -> None:
        self._storage, self._location = storage, location

    def actions(self, kind: str, wanted: pa.Table) -> list[dict[str, Any] | None]:
        found: list[dict[str, Any] | None] = [None] * wanted.num_rows
        rows, keys = wanted["row"].to_numpy(), keys_of(wanted)
        where = self._location
        try:
            data = self._storage.read_whole(where)
        except NotFoundError:
            return found
        with reading(where), ArrowFile(pa.BufferReader(data), where) as file:
            if file.schema_arrow.get_field_index(kind) < 0:
                return found
            check_decoded(file, data, [kind], _limit(data), where)
            first = 0
            for group in range(file.num_row_groups):
                n_rows = file.metadata.row_group(group).num_rows
                own = np.flatnonzero((first <= rows) & (rows < first + n_rows))
                if len(own):
                    table = file.read_row_group(group, columns=[kind]).take(pa.array(rows[own] - first))
                    for at, action in _with_keys(table, kind, keys.take(pa.array(own)), where):
                        found[own[at]] = action
                first += n_rows
        return found


def _with_keys(
    table: pa.Table, kind: str, keys: pa.Array, where: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the actions of rows that have these keys, with the numbers of the rows."""
    actions, rows = _struct(table, kind, where)
    named = pa.table({name: _field(actions, name, REMOVE_COLUMNS[name], where) for name in KEY_COLUMNS})
    same = pc.fill_null(pc.equal(keys_of(named), keys.take(pa.array(rows))), False)
    assert actions is not None
    for row, action in zip(
        rows[flags_of(same)].tolist(), actions.filter(same).to_pylist(maps_as_pydicts="strict"), strict=True
    ):
        yield row, _plain(action)


def _plain(action: dict[str, Any]) -> dict[str, Any]:
    """Returns an `add` or `remove` as in JSON: without the parsed columns, and without nulls."""
    stats = action.pop("stats_parsed", None)
    action.pop("partitionValues_parsed", None)
    if action.get("stats") is None and stats is not None:
        action["stats"] = as_json(_drop_nulls(stats, _is_json), _json_value)
    vector = action.get("deletionVector")
    if vector is not None:
        action["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
    return {name: value for name, value in action.items() if value is not None}


def _drop_nulls(value: Any, kept: Callable[[Any], bool] = lambda inner: inner is not None) -> Any:
    if isinstance(value, dict):
        return {name: _drop_nulls(inner, kept) for name, inner in value.items() if kept(inner)}
    return value


def _is_json(value: Any) -> bool:
    """Whether JSON has a value of parsed statistics: no null, infinity, NaN, bytes or decimal that a number rounds."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Decimal):
        return Decimal(repr(float(value))) == value
    return value is not None and not isinstance(value, bytes)


def _json_value(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        text = value.isoformat(timespec="milliseconds") if hasattr(value, "hour") else value.isoformat()
        return text.replace("+00:00", "Z")
    return float(value)


def read_checkpoint(
    storage: TableStorage, paths: Sequence[str], version: int, source: int = 0
) -> FileActions:
    """Reads the actions of a checkpoint and of its sidecars; a v2 checkpoint may be a JSON file.

    Another writer may replace the parts of a checkpoint meanwhile, with other actions in each: then all are read again.

    Raises:
        CorruptDataError: a file is not a checkpoint, or a sidecar is missing.
        ConflictError: the parts were replaced in each of several attempts.
    """
    if len(paths) == 1:
        return _read_checkpoint(storage, paths, version, source)
    before = storage.log_files(paths)
    for _ in range(_ATTEMPTS):
        found = _read_checkpoint(storage, paths, version, source)
        after = storage.log_files(paths)
        if after == before:
            return found
        before = after
    raise ConflictError(
        f"{storage.root}/{paths[0]}: expected parts of one checkpoint, found that another writer replaced some of the "
        f"{len(paths)} parts in each of {_ATTEMPTS} attempts to read them"
    )


def _read_checkpoint(storage: TableStorage, paths: Sequence[str], version: int, source: int) -> FileActions:
    others: list[tuple[int, str, dict[str, Any]]] = []
    sources: list[Source] = []
    adds: list[pa.Table] = []
    removes: list[pa.Table] = []
    columns: list[str] = []

    def take(found: FileActions) -> None:
        others.extend(found.others)
        sources.extend(found.sources)
        adds.append(found.adds)
        removes.append(found.removes)

    for path in paths:
        if path.endswith(".json"):
            found = read_commits(
                [(version, path, storage.read(path))], lambda: columns, source + len(sources)
            )
        else:
            found = _read_parquet(storage, f"{storage.root}/{path}", version, columns, source + len(sources))
        take(found)
        if not columns:
            columns.extend(_columns_of(found.others, f"{storage.root}/{path}"))
    for _, name, action in list(others):
        if name == "sidecar":
            take(
                _read_parquet(
                    storage, _sidecar(action, storage, paths[0]), version, columns, source + len(sources)
                )
            )
    # a part that was read before the metadata has no columns for partition values
    if columns and any(partition_column(columns[0]) not in table.schema.names for table in adds):
        return _read_parts(storage, paths, version, source, columns)
    return FileActions(pa.concat_tables(adds), pa.concat_tables(removes), others, sources)


def _read_parts(
    storage: TableStorage, paths: Sequence[str], version: int, source: int, columns: Sequence[str]
) -> FileActions:
    """Reads the parts of a checkpoint whose partition columns are known."""
    found = [
        _read_parquet(storage, f"{storage.root}/{path}", version, columns, source + at)
        for at, path in enumerate(paths)
    ]
    return FileActions(
        pa.concat_tables([part.adds for part in found]),
        pa.concat_tables([part.removes for part in found]),
        [other for part in found for other in part.others],
        [one for part in found for one in part.sources],
    )


def _columns_of(others: Sequence[tuple[int, str, dict[str, Any]]], where: str) -> list[str]:
    return [
        name
        for _, kind, action in others
        if kind == "metaData"
        for name in physical_partition_columns(action, where)
    ]


def sidecars_of(storage: TableStorage, path: str) -> set[str]:
    """Returns the locations of the sidecars of a v2 checkpoint.

    Args:
        path: the path of the checkpoint, relative to the table.

    Raises:
        CorruptDataError: the file is not a checkpoint.
    """
    if path.endswith(".json"):
        others = read_commits([(0, path, storage.read(path))], list).others
    else:
        others = [(0, name, action) for name, action in read_rare_actions(storage, path, ["sidecar"])]
    return {_sidecar(action, storage, path) for _, name, action in others if name == "sidecar"}


def _sidecar(action: Mapping[str, Any], storage: TableStorage, checkpoint: str) -> str:
    """Returns the location of a sidecar; its path is relative to the folder of sidecars, or absolute."""
    path = action.get("path")
    if not isinstance(path, str) or not path:
        raise CorruptDataError("sidecar of a checkpoint", path=checkpoint, expected="a path", found=path)
    return storage.location(path, SIDECARS)


def _read_parquet(
    storage: TableStorage, where: str, version: int, columns: Sequence[str], source: int
) -> FileActions:
    data = storage.read_whole(where)
    with reading(where):
        with ArrowFile(pa.BufferReader(data), where) as file:
            schema = file.schema_arrow
            wanted = [name for name in RARE_ACTIONS if schema.get_field_index(name) >= 0]
            wanted += [
                f"{name}.{field}"
                for name, fields in (("add", [*COLUMNS, "partitionValues"]), ("remove", REMOVE_COLUMNS))
                if schema.get_field_index(name) >= 0
                for field in fields
            ]
            if schema.get_field_index("add") >= 0:
                wanted.append("add.stats_parsed.numRecords")
            check_decoded(file, data, wanted, _limit(data), where)
            table = _read_rows(file, wanted, _limit(data), where)
        return _actions_of(storage, where, version, columns, source, table)


def read_rare_actions(
    storage: TableStorage, path: str, kinds: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the actions of some types in a Parquet file of a checkpoint; its other columns are not read.

    Args:
        path: the path of the file, relative to the table.

    Raises:
        CorruptDataError: the file is not a checkpoint.
    """
    where, data = f"{storage.root}/{path}", storage.read(path)
    with reading(where), ArrowFile(pa.BufferReader(data), where) as file:
        wanted = [name for name in kinds if file.schema_arrow.get_field_index(name) >= 0]
        check_decoded(file, data, wanted, _limit(data), where)
        yield from _dictionaries(_read_rows(file, wanted, _limit(data), where), where)


def _dictionaries(table: pa.Table, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the values of the columns of rare actions."""
    for name in RARE_ACTIONS:
        if name in table.schema.names:
            column = table[name].combine_chunks()
            found = column.filter(column.is_valid()).to_pylist(maps_as_pydicts="strict")
            for action in map(_drop_nulls, found):
                check({name: action}, Actions, "an action", where)
                yield name, action


def _limit(data: bytes) -> int:
    """Bytes that columns of a checkpoint may become."""
    return max(_LEAST_DECODED, most_inflated(len(data)))


def _read_rows(file: pq.ParquetFile, columns: Sequence[str], limit: int, where: str) -> pa.Table:
    """Reads columns in batches, up to a limit of decoded bytes."""
    batches, n_bytes = [], 0
    for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
        n_bytes += batch.nbytes
        if n_bytes > limit:
            raise LimitExceededError(
                f"{where}: checkpoint of more than {limit} decoded bytes, the limit for its size"
            )
        batches.append(batch)
    return pa.Table.from_batches(batches, file.read_row_groups([], columns=columns).schema)


def _actions_of(
    storage: TableStorage, where: str, version: int, columns: Sequence[str], source: int, table: pa.Table
) -> FileActions:
    others = [(version, name, action) for name, action in _dictionaries(table, where)]
    if not columns:
        columns = _columns_of(others, where)
    add, rows = _struct(table, "add", where)
    adds = {name: _field(add, name, kind, where) for name, kind in COLUMNS.items()}
    adds["stats"] = _with_counts(adds["stats"], add)
    if columns:
        values = _field(add, "partitionValues", pa.map_(pa.string(), pa.string()), where)
        adds |= {
            partition_column(name): not_empty(pc.map_lookup(values, pa.scalar(name), "first"))
            for name in columns
        }
    n = len(rows)
    adds |= {
        "source": pa.array(np.full(n, source, np.int32)),
        "row": pa.array(rows),
        "version": pa.array(np.full(n, version, np.int64)),
    }
    remove, gone = _struct(table, "remove", where)
    removes = {name: _field(remove, name, kind, where) for name, kind in REMOVE_COLUMNS.items()}
    removes |= {
        "source": pa.array(np.full(len(gone), source, np.int32)),
        "row": pa.array(gone),
        "version": pa.array(np.full(len(gone), version, np.int64)),
    }
    found_adds = pa.table(adds)
    check_paths(found_adds, [(version, where, 0)])
    return FileActions(found_adds, pa.table(removes), others, [_Parquet(storage, where)])


def _struct(table: pa.Table, name: str, where: str) -> tuple[pa.StructArray | None, np.ndarray]:
    """Returns the values of a column of actions that are not null, and their rows."""
    if name not in table.schema.names:
        return None, np.empty(0, np.int64)
    column = table[name].combine_chunks()
    if not pa.types.is_struct(column.type):
        raise CorruptDataError(f"column {name}", path=where, expected="struct", found=column.type)
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    return column.take(pa.array(rows)), rows


def _field(actions: pa.StructArray | None, name: str, kind: pa.DataType, where: str) -> pa.Array:
    """Returns a field of actions in the type of the log."""
    if actions is None:
        return pa.array([], kind)
    at = actions.type.get_field_index(name)
    if at < 0:
        return pa.nulls(len(actions), kind)
    found = actions.field(at)
    if not _is_like(found.type, kind):
        raise CorruptDataError(f"column {name}", path=where, expected=kind, found=found.type)
    if not pa.types.is_struct(kind):
        return found.cast(kind)
    inner = [_field(found, field.name, field.type, where) for field in kind]
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=found.is_null())


def _is_like(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of a type are read as another one: of any width, as dictionaries, all null."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return bool(found.id == kind.id)
    if pa.types.is_integer(kind):
        return bool(pa.types.is_integer(found) or pa.types.is_null(found))
    return not (pa.types.is_primitive(found) or pa.types.is_nested(found))


def _with_counts(stats: pa.Array, add: pa.StructArray | None) -> pa.Array:
    """Makes `stats` for checkpoints that have only parsed statistics: JSON with the number of records."""
    if add is None or not stats.null_count or (at := add.type.get_field_index("stats_parsed")) < 0:
        return stats
    counts = pc.struct_field(add.field(at), "numRecords").cast(pa.string())
    made = pc.binary_join_element_wise('{"numRecords":', counts, "}", "")
    return pc.coalesce(stats, made)
