"""Finds the data files that a commit changed, by its actions, and those that differ between two versions.

cdc                            its rows are the changes; all other actions of the commit are ignored
remove and add of one path     the rows that only one of their deletion vectors deletes
add, remove                    all live rows
dataChange is false            nothing
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.delta.log.actions import not_empty, partition_column
from puffin_fast.delta.log.paths import keys_of
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.scans.descriptors import locate
from puffin_fast.delta.scans.plan import DeltaTable, typed_partition
from puffin_fast.delta.scans.statistics import UNKNOWN, Statistics
from puffin_fast.delta.scans.tasks import DeltaFile, DeltaTask, DeltaVector, footer_counts
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.rows.changes.states import FileChange
from puffin_fast.rows.filters.bounds import literal_values

Action: TypeAlias = Mapping[str, Any]

_FIELDS = ("path", "size", "stats", "deletionVector", "baseRowId", "defaultRowCommitVersion")


class ChangePlanner:
    """Plans changes.

    Args:
        table: the version whose schema the changes have.
        feed: whether files of the change data feed are used.
    """

    def __init__(self, table: DeltaTable, *, feed: bool) -> None:
        self._table, self._feed = table, feed
        self._storage, self._schema = table.snapshot.storage, table.schema

    def of_version(
        self, version: int, actions: Iterable[tuple[str, Action]], *, partitioning: bool
    ) -> tuple[list[FileChange], list[DeltaTask]]:
        """Returns the data files that a commit changed, or else its feed files.

        Args:
            actions: the actions of the commit, by type.
            partitioning: whether partition columns may have been others before.

        Raises:
            CorruptDataError: an action is not valid.
            UnsupportedError: a file has other partition columns than the table.
            NotFoundError: a file does not exist.
        """
        actions = [(kind, action if partitioning else self._with_nulls(action)) for kind, action in actions]
        feed = [action for kind, action in actions if kind == "cdc"]
        if feed and self._feed and all(map(self._is_complete, feed)):
            tasks = self._tasks(feed, f"version {version}")
            self._count(tasks)
            return [], tasks
        removed, added = (self._by_path(version, kind, actions) for kind in ("remove", "add"))
        for path in removed.keys() | added.keys():
            sides = [side for side in (removed, added) if path in side]
            if all(side[path].get("dataChange") is False for side in sides):
                for side in sides:
                    del side[path]
        if self._schema.partition_names or partitioning:
            removed = self._with_partitions(version, removed)
        return self._compared(removed, added, f"version {version}"), []

    def between(self, before: Snapshot | None, after: Snapshot | None) -> list[FileChange]:
        """Returns the data files that differ between two versions; None is the empty table.

        Raises:
            CorruptDataError, UnsupportedError, NotFoundError: as `of_version`.
        """
        states = [state for state in (before, after) if state is not None]
        for state in states:
            state.check_files()
        old, new = (
            pa.array([], pa.string()) if one is None else keys_of(one.files) for one in (before, after)
        )
        removed, added = (
            {} if state is None else self._live(state, pc.invert(pc.is_in(mine, value_set=other)))
            for state, mine, other in ((before, old, new), (after, new, old))
        )
        return self._compared(removed, added, "a version")

    def _live(self, state: Snapshot, chosen: pa.BooleanArray) -> dict[str, Action]:
        """The actions of some live files of a version, by location."""
        files = state.files.filter(chosen)
        found = files.select(_FIELDS).to_pylist()
        names = state.partition_columns
        values = [files[partition_column(name)].to_pylist() for name in names]
        for action, *own in zip(found, *values, strict=True):
            action["partitionValues"] = dict(zip(names, own, strict=True))
        return {self._storage.location(action["path"]): action for action in found}

    def _by_path(self, version: int, kind: str, actions: Sequence[tuple[str, Action]]) -> dict[str, Action]:
        found: dict[str, Action] = {}
        for name, action in actions:
            if name == kind:
                path = self._storage.location(action["path"])
                if path in found:
                    raise CorruptDataError(
                        f"{kind} actions of a data file in version {version}",
                        path=path,
                        expected="one",
                        found="two",
                    )
                found[path] = action
        return found

    def _is_complete(self, action: Action) -> bool:
        return (action.get("partitionValues") or {}).keys() == set(self._schema.partition_names)

    def _with_nulls(self, action: Action) -> Action:
        """Adds partition values that are null: Spark leaves them out of `remove` and `cdc`."""
        given, names = action.get("partitionValues"), self._schema.partition_names
        if given is None or self._is_complete(action) or not given.keys() < set(names):
            return action
        return {**action, "partitionValues": {name: given.get(name) for name in names}}

    def _with_partitions(self, version: int, removes: Mapping[str, Action]) -> dict[str, Action]:
        """Adds partition values to removes without them, or without some, from the version before."""
        found = dict(removes)
        missing = {
            path
            for path, action in removes.items()
            if action.get("partitionValues") is None or not self._is_complete(action)
        }
        if missing:
            before = snapshot(self._storage, version=version - 1)
            paths = [self._storage.location(path) for path in before.files["path"].to_pylist()]
            live = self._live(before, pa.array([path in missing for path in paths], pa.bool_()))
            for path in missing & live.keys():
                found[path] = {**removes[path], "partitionValues": live[path]["partitionValues"]}
        return found

    def _compared(
        self, removed: Mapping[str, Action], added: Mapping[str, Action], where: str
    ) -> list[FileChange]:
        before, after = (
            dict(zip(side, self._tasks([*side.values()], where), strict=True)) for side in (removed, added)
        )
        unknown = []
        for path in before.keys() | after.keys():
            tasks = [side[path] for side in (before, after) if path in side]
            known = {task.data.record_count for task in tasks} - {UNKNOWN}
            if len(known) > 1:
                expected, found = (task.data.record_count for task in tasks)
                raise CorruptDataError(
                    "record count of a data file in two actions", path=path, expected=expected, found=found
                )
            for task in tasks:
                task.data.record_count = next(iter(known), UNKNOWN)
            unknown += [] if known else tasks
        self._count(unknown)
        return [
            FileChange(before.get(path), after.get(path)) for path in sorted(before.keys() | after.keys())
        ]

    def _count(self, tasks: Sequence[DeltaTask]) -> None:
        """Reads the footers of data files whose number of rows is not in the log."""
        unknown = [task.data for task in tasks if task.data.record_count == UNKNOWN]
        if unknown:
            paths = list(dict.fromkeys(data.file_path for data in unknown))
            counts = dict(zip(paths, footer_counts(self._storage, paths), strict=True))
            for data in unknown:
                data.record_count = counts[data.file_path]

    def _tasks(self, actions: Sequence[Action], where: str) -> list[DeltaTask]:
        """The data files of actions, with their vectors."""
        stats = pa.chunked_array([pa.array([action.get("stats") for action in actions], pa.string())])
        counts = Statistics.of(stats, {}, self._storage.root).n_rows.tolist()
        return [
            DeltaTask(self._file(action, count, partition), self._vector(action))
            for action, count, partition in zip(
                actions, counts, self._partitions(actions, where), strict=True
            )
        ]

    def _file(self, action: Action, count: int, partition: tuple[Any, ...]) -> DeltaFile:
        row_id, version = (action.get(name) for name in ("baseRowId", "defaultRowCommitVersion"))
        path = self._storage.location(action["path"])
        return DeltaFile(path, action.get("size") or 0, count, partition, row_id, version)

    def _vector(self, action: Action) -> DeltaVector | None:
        if action.get("deletionVector") is None:
            return None
        return DeltaVector(
            *locate(action["deletionVector"], self._storage, self._storage.location(action["path"]))
        )

    def _partitions(self, actions: Sequence[Action], where: str) -> Iterator[tuple[Any, ...]]:
        names = self._schema.partition_names
        for action in actions:
            if action.get("partitionValues") is not None or names:
                found = action.get("partitionValues") or {}
                if found.keys() != set(names):
                    raise UnsupportedError(
                        f"{self._storage.root}: {where}: data file {action['path']} is partitioned by "
                        f"{', '.join(found) or 'nothing'}, the table by {', '.join(names) or 'nothing'}; changes of "
                        "rows under other partition columns are not supported"
                    )
        columns = []
        for field, name in zip(self._schema.partition_fields, names, strict=True):
            texts = pa.array([action["partitionValues"][name] for action in actions], pa.string())
            columns.append(literal_values(typed_partition(field, not_empty(texts), self._storage.root)))
        return zip(*columns, strict=True) if columns else iter([()] * len(actions))
