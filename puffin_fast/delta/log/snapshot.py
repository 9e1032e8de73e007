"""Loads a version of a table: finds the live files by the actions of its log, which are read as columns.

The key of a file is its path and the unique id of its deletion vector. The newest action with a key decides: after an
`add`, the file is live; after a `remove`, it is not. A checkpoint has the files that were live in its version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._api.arguments import check_integer
from puffin_fast._api.times import milliseconds_of
from puffin_fast._concurrency.threads import on_threads
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._process.cached import cached_property
from puffin_fast.delta.log.action_types import as_lines
from puffin_fast.delta.log.actions import (
    FileActions,
    Source,
    configuration_of,
    physical_partition_columns,
    read_commits,
    schema_of,
)
from puffin_fast.delta.log.checkpoint import read_checkpoint
from puffin_fast.delta.log.head import head_of
from puffin_fast.delta.log.paths import are_spelled, keys_of, may_be_spelled, may_contain
from puffin_fast.delta.log.protocol import Protocol, check_readable
from puffin_fast.delta.log.segment import LOG_READERS, LogListing, LogSegment, commit_path, load_segment
from puffin_fast.delta.log.storage import TableStorage, storage_of
from puffin_fast.delta.log.times import CommitTimes, commit_info_of
from puffin_fast.errors import ConflictError, CorruptDataError, InvalidInputError, NotFoundError

MAX_CHUNKS = 8
"""Number of chunks from which the files that commits would leave are copied to one."""


@dataclass(frozen=True, repr=False)
class Snapshot:
    """A version of a Delta table.

    Attributes:
        storage: the storage of the table.
        version: its number.
        protocol: the features that it requires of readers and writers.
        metadata: the newest ``metaData`` action.
        files: the live files: path (as in the log), size, modificationTime, stats, deletionVector, baseRowId,
            defaultRowCommitVersion, a column `partition.<physical name>` for each partition column, and the place of
            the action.
        domain_metadata: the newest ``domainMetadata`` of each domain that is not removed.
        transactions: the newest version of each application (``txn``).
        commit_info: the ``commitInfo`` of the version's own commit; empty if only a checkpoint is left of it.
        is_empty: whether the file of the version's own commit has no bytes: its writer may be about to replace it.
    """

    storage: TableStorage
    version: int
    protocol: Protocol
    metadata: Mapping[str, Any]
    files: pa.Table
    domain_metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    commit_info: Mapping[str, Any] = field(default_factory=dict)
    _sources: Sequence[Source] = ()
    segment: LogSegment | None = None
    is_empty: bool = False
    _paths_differ: bool = False
    """Whether it is known that no path occurs twice."""
    _removes: pa.Table | None = None
    """The `remove` actions of the log from the checkpoint on: `REMOVE_COLUMNS` and the places of the actions."""
    _others: Sequence[tuple[int, str, Mapping[str, Any]]] = ()
    """The other actions: version, type, action."""

    @property
    def root(self) -> str:
        """The location of the table."""
        return self.storage.root

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table properties. A value that is not a text counts as its JSON text, as in deltalake."""
        return configuration_of(self.metadata)

    @cached_property
    def delta_schema(self) -> Mapping[str, Any]:
        """The schema as JSON, as in the log."""
        return schema_of(self.metadata, self.root)

    @property
    def partition_columns(self) -> list[str]:
        """The physical names of the partition columns."""
        return physical_partition_columns(self.metadata, self.root)

    def __repr__(self) -> str:
        return f"Snapshot({self.root!r}, version={self.version}, files={self.files.num_rows})"

    @cached_property
    def _repeated(self) -> str | None:
        """The location of a data file that is live more than once."""
        if self._paths_differ and not may_be_spelled(self.files["path"]):
            return None
        paths = self.files["path"].combine_chunks()
        if self._paths_differ or _are_distinct(paths):
            other = are_spelled(paths)  # one location may be written in several ways
            spelled = set(map(self._location, paths.filter(other).to_pylist()))
            if len(spelled) == pc.sum(other, min_count=0).as_py():
                plain = paths.filter(pc.invert(other))
                if not pc.any(pc.is_in(plain, pa.array(spelled, plain.type))).as_py():
                    return None
        locations = Counter(map(self._location, paths.to_pylist()))
        return next((location for location, count in locations.items() if count > 1), None)

    def _location(self, path: str) -> str:
        """The location of a data file, relative to the table if it is inside of it."""
        return self.storage.location(path).removeprefix(f"{self.root}/")

    def check_files(self) -> None:
        """Refuses a version in which a data file is live more than once: its rows would be returned more than once.

        The key of a file is its path with the unique id of its vector (protocol, "Action Reconciliation"), so a log may
        add a file with a new vector and not remove it with the old one. It is undefined which of the two is valid.

        Raises:
            CorruptDataError: a data file is live more than once; names it, the versions that added it, and the vectors.
        """
        if self._repeated is None:
            return
        files = self.files.select(["path", "version", "deletionVector"]).to_pylist()
        adds = [
            f"version {file['version']} ({_vector_text(file['deletionVector'])})"
            for file in files
            if self._location(file["path"]) == self._repeated
        ]
        raise CorruptDataError(
            f"live adds of a data file in version {self.version}",
            path=self.storage.location(self._repeated),
            expected="one",
            found=f"{len(adds)}, of {', '.join(adds)}",
        )

    def adds(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Returns the complete `add` actions of some rows of `files`.

        Args:
            rows: indexes into `files`.
        """
        return self._actions("add", self.files.take(pa.array(rows, pa.int64())))

    def tombstones(self, since: int) -> list[dict[str, Any]]:
        """Returns the complete `remove` actions of files that are not live.

        Args:
            since: leaves out files that were removed before, in milliseconds since 1970.
        """
        removes = self._removes
        if removes is None or not removes.num_rows:
            return []
        codes = keys_of(removes).dictionary_encode().indices.to_numpy()
        newest = np.zeros(codes.max() + 1, np.int64)
        newest[codes] = np.arange(len(codes))  # the log is in order
        removes = removes.take(pa.array(np.sort(newest)))
        live = pc.is_in(keys_of(removes), value_set=keys_of(self.files))
        times = pc.fill_null(removes["deletionTimestamp"], 0)
        kept = pc.and_(pc.invert(live), pc.greater_equal(times, since))
        return self._actions("remove", removes.filter(kept))

    def latest(self, kind: str, name: str) -> list[Mapping[str, Any]]:
        """Returns the newest action of a type, such as ``txn``, for each value of one of its fields."""
        return list({action[name]: action for _, found, action in self._others if found == kind}.values())

    def _actions(self, kind: str, actions: pa.Table) -> list[dict[str, Any]]:
        """Reads actions whole, by their places."""
        sources = actions["source"].to_numpy()
        found: list[dict[str, Any] | None] = [None] * len(sources)
        for source in np.unique(sources).tolist():
            own = np.flatnonzero(sources == source)
            whole = self._sources[source].actions(kind, actions.take(pa.array(own)))
            for at, action in zip(own.tolist(), whole, strict=True):
                found[at] = action
        moved = [at for at, action in enumerate(found) if action is None]
        if moved:
            anew = self._read_anew(kind, actions.take(pa.array(moved)))
            for at, action in zip(moved, anew, strict=True):
                found[at] = action
        return [action for action in found if action is not None]

    def _read_anew(self, kind: str, actions: pa.Table) -> list[dict[str, Any]]:
        """Reads actions of the checkpoint by their keys, after another writer has replaced or removed the checkpoint.

        Raises:
            ConflictError: the log no longer has one of them.
        """
        assert self.segment is not None
        version = self.segment.checkpoint
        try:
            base = load_snapshot(self.storage, LogListing.of(self.storage).segment(version))
        except NotFoundError as error:
            raise ConflictError(f"version {version} was removed after it had been read: {error}") from error
        known = base.files if kind == "add" else base._removes
        assert known is not None
        places = pc.index_in(keys_of(actions), value_set=keys_of(known))
        if places.null_count:
            path = actions["path"].filter(places.is_null())[0].as_py()
            raise ConflictError(
                f"{self.root}: the checkpoint of version {version} was replaced after it had been read; expected the "
                f"{kind} of {path} with the same deletion vector, found none"
            )
        return base._actions(kind, known.take(places))

    def then(self, actions: Sequence[Mapping[str, Any]]) -> Snapshot:
        """Returns what a commit of actions on files would make of this version; its number stays.

        Args:
            actions: `add` and `remove`; others are ignored.
        """
        text = as_lines(action for action in actions if "add" in action or "remove" in action)
        number, sources = self.version + 1, list(self._sources)
        tail = read_commits([(number, "staged", text)], lambda: self.partition_columns, len(sources))
        base = FileActions(self.files, tail.removes.slice(0, 0), [], sources)
        files, paths_differ = _live(base, tail)
        if (
            files["path"].num_chunks > MAX_CHUNKS
        ):  # after many calls: each chunk of a column slows all later calls
            files = files.combine_chunks()
        return replace(self, files=files, _sources=[*sources, *tail.sources], _paths_differ=paths_differ)


def snapshot(
    table: Any,
    *,
    version: int | None = None,
    as_of: int | str | datetime | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> Snapshot:
    """Reads a version of a Delta table from its log.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        version: its number; the newest by default.
        as_of: selects the version that was the newest at this time: milliseconds since 1970, or a datetime or ISO 8601
            text with a time zone. The time of a version is its in-commit timestamp, if the table had these then, else
            the modification time of its commit's file, raised above that of the commit before, as in Spark.
        filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of the path.
        storage_options: instead of it, the options that deltalake takes, such as ``AWS_ACCESS_KEY_ID``. By
            default, those of a given `DeltaTable`.

    Raises:
        NotFoundError: there is no Delta table, or the log does not have the version.
        CorruptDataError: a commit is missing, or a file of the log is damaged.
        UnsupportedError: the protocol version or a reader feature is unknown.
        InvalidInputError: both `version` and `as_of` are given, the version is not a number, or a datetime has no time
            zone.

    Examples:
        >>> pf.delta.snapshot(path).version
        1
    """
    filesystem = filesystem_of(table, filesystem, storage_options)
    return snapshot_of(storage_of(table, filesystem), version, as_of, "version")


def snapshot_of(
    storage: TableStorage,
    version: int | None,
    as_of: int | str | datetime | None,
    name: str = "snapshot_id",
) -> Snapshot:
    """Reads a version from its log; as `snapshot`.

    Args:
        name: the name of the caller's argument for the version.
    """
    check_integer(name, version, least=0)
    listing = LogListing.of(storage)
    if as_of is not None:
        if version is not None:
            raise InvalidInputError(f"{name} and as_of: expected at most one of them, found both")
        version = CommitTimes(storage, listing).version_as_of(milliseconds_of(as_of))
    return load_snapshot(storage, listing.segment(version))


def load_head(storage: TableStorage, segment: LogSegment) -> Snapshot:
    """Loads a version without its files: the table `files` has no column.

    Raises:
        As `load_snapshot`.
    """
    found = head_of(storage, segment)
    protocol = Protocol.of(found["protocol"], storage.root)
    check_readable(protocol, storage.root)
    return Snapshot(storage, segment.version, protocol, found["metaData"], pa.table({}), segment=segment)


def load_snapshot(storage: TableStorage, segment: LogSegment) -> Snapshot:
    """Loads a version from the files of the log.

    Raises:
        As `snapshot` does.
    """
    return load_segment(_load, storage, segment)


def _load(storage: TableStorage, segment: LogSegment) -> Snapshot:
    base: FileActions | None = None
    if segment.checkpoint_files:
        base = read_checkpoint(storage, segment.checkpoint_files, segment.checkpoint)
    known = _newest(base.others if base else [], "metaData")
    paths = [commit_path(at) for at in segment.commits]
    contents = list(on_threads(storage.read, paths, None if storage.is_local else LOG_READERS))
    files = (
        (at, f"{storage.root}/{path}", data)
        for at, path, data in zip(segment.commits, paths, contents, strict=True)
    )
    tail = read_commits(
        files,
        lambda: physical_partition_columns(known, storage.root) if known else [],
        len(base.sources) if base else 0,
    )
    others = [*(base.others if base else []), *tail.others]
    protocol, metadata = _newest(others, "protocol"), _newest(others, "metaData")
    for name, action in (("protocol", protocol), ("metaData", metadata)):
        if action is None:
            raise CorruptDataError(
                f"{name} of version {segment.version}", path=storage.root, expected="one", found="none"
            )
    assert protocol is not None
    assert metadata is not None
    parsed = Protocol.of(protocol, storage.root)
    check_readable(parsed, storage.root)
    live, paths_differ = _live(base, tail)
    domains = {action["domain"]: action for _, name, action in others if name == "domainMetadata"}
    commit_info: list[Mapping[str, Any]] = [
        action for at, name, action in others if name == "commitInfo" and at == segment.version
    ]
    if not segment.commits:  # a checkpoint has none
        path = commit_path(segment.version)
        with suppress(NotFoundError):
            commit_info = [commit_info_of(segment.version, f"{storage.root}/{path}", storage.read(path))]
    return Snapshot(
        storage,
        segment.version,
        parsed,
        metadata,
        live,
        {name: action for name, action in domains.items() if not action.get("removed")},
        {action["appId"]: action["version"] for _, name, action in others if name == "txn"},
        commit_info[0] if commit_info else {},
        [*(base.sources if base else []), *tail.sources],
        segment,
        bool(contents) and not contents[-1],
        paths_differ,
        pa.concat_tables([*([base.removes] if base else []), tail.removes]),
        others,
    )


def _newest(others: Sequence[tuple[int, str, dict[str, Any]]], kind: str) -> dict[str, Any] | None:
    return next((action for _, name, action in reversed(others) if name == kind), None)


def _vector_text(vector: Mapping[str, Any] | None) -> str:
    if vector is None:
        return "no deletion vector"
    return f"deletion vector {vector['storageType']} {vector['pathOrInlineDv']} at offset {vector['offset']}"


def _live(base: FileActions | None, tail: FileActions) -> tuple[pa.Table, bool]:
    """Returns the `add` actions of live files, and whether it is known that no path occurs twice."""
    adds, removes = tail.adds, tail.removes
    if base is None or base.adds.num_rows == 0:
        return _last(adds, removes)
    if adds.num_rows == 0 and removes.num_rows == 0:
        return base.adds, False
    touched = pa.concat_arrays([keys_of(adds), keys_of(removes)])
    old = pc.invert(pc.is_in(keys_of(base.adds), value_set=touched))
    newer, _ = _last(adds, removes)
    kept = base.adds.filter(old)
    return pa.concat_tables([kept, newer], promote_options="default"), False


def _last(adds: pa.Table, removes: pa.Table) -> tuple[pa.Table, bool]:
    """Returns the newest `add` actions with their key, and whether it is known that no path occurs twice."""
    if adds.num_rows == 0:
        return adds, True
    if removes.num_rows == 0 and not may_contain(adds["path"], b"%") and _are_distinct(adds["path"]):
        return adds, True
    # in one version, removes come first: a file with both an add and a remove of one key is live
    first = removes.num_rows
    keys = pa.concat_arrays([keys_of(removes), keys_of(adds)])
    codes = keys.dictionary_encode().indices.to_numpy()
    order = np.argsort(np.concatenate([removes["version"], adds["version"]]), kind="stable")
    last = np.empty(codes.max() + 1, np.int64)
    last[codes[order]] = order
    chosen = np.sort(last[last >= first]) - first
    return adds if len(chosen) == adds.num_rows else adds.take(pa.array(chosen)), False


def _are_distinct(paths: pa.Array | pa.ChunkedArray) -> bool:
    return len(pc.unique(paths)) == len(paths)
