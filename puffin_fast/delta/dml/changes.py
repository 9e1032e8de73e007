"""Writes new deletion vectors of a Delta table to `.bin` files, and makes the actions of the commit.

For each data file with new deletes, the log gets two actions. The `add` has all fields of the old `add`, with the new
vector, and statistics with `tightBounds` false. The `remove` has the path and the *old* vector: without this vector,
some readers would return the deleted rows again. A data file without live rows gets only a `remove`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from puffin_fast._io import open_sink
from puffin_fast.delta.log.action_types import FileStats, as_json, parse
from puffin_fast.delta.log.protocol import check_deletable
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import TableStorage, canonical_path
from puffin_fast.delta.scans.descriptors import descriptor_of, file_name
from puffin_fast.delta.scans.tasks import DeltaTask
from puffin_fast.dv import delta as codec
from puffin_fast.errors import CorruptDataError
from puffin_fast.rows.deletes.outcome import NewDeletes

VECTOR_FILE_SIZE = 64 << 20
"""Target size of a file of vectors in bytes."""


@dataclass
class Written:
    """The vectors that were written for one commit.

    Attributes:
        changes: data files with new deletes, each with its new descriptor; None if no live row is left.
        files: the files of vectors, below the table.
        rows: number of newly deleted rows.
        merged: number of vectors that include an earlier vector.
        n_bytes: size of the files.
    """

    changes: list[tuple[NewDeletes, dict[str, Any] | None]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    rows: int = 0
    merged: int = 0
    n_bytes: int = 0

    @property
    def dropped(self) -> int:
        """The number of data files without live rows."""
        return sum(descriptor is None for _, descriptor in self.changes)

    @property
    def vectors(self) -> int:
        """The number of vectors: one for each data file with live rows."""
        return len(self.changes) - self.dropped


def allowed(base: Snapshot, deletes: Iterable[NewDeletes]) -> Iterator[NewDeletes]:
    """Yields deletes as far as the table allows them. One of all rows of a data file needs no vector.

    Raises:
        UnsupportedError: as `check_deletable`.
    """
    for new in deletes:
        if new.n_new:
            check_deletable(base.protocol, base.configuration, base.root, by_vector=not new.drops)
        yield new


def write_vectors(storage: TableStorage, deletes: Iterable[NewDeletes], *, dry_run: bool = False) -> Written:
    """Writes the vectors of one commit to files of the target size. After an error, no file is left.

    Args:
        storage: the storage of the table.
        deletes: at most one per data file; those without a newly deleted row are skipped.
        dry_run: write nothing.
    """
    written = Written()
    name, buffer = uuid.uuid4(), bytearray([codec.FILE_VERSION])
    try:
        for new in deletes:
            if new.n_new == 0:
                continue
            written.rows += new.n_new
            if new.drops:
                written.changes.append((new, None))
                continue
            assert new.positions is not None
            record = codec.encode(new.positions)
            written.changes.append((new, descriptor_of(name, len(buffer), record, len(new.positions))))
            written.merged += new.task.vector is not None
            buffer += record
            if len(buffer) >= VECTOR_FILE_SIZE:
                _write_file(storage, name, buffer, written, dry_run=dry_run)
                name, buffer = uuid.uuid4(), bytearray([codec.FILE_VERSION])
        _write_file(storage, name, buffer, written, dry_run=dry_run)
    except BaseException:
        for path in written.files:
            storage.remove(path)
        raise
    return written


def _write_file(
    storage: TableStorage, name: uuid.UUID, buffer: bytearray, written: Written, *, dry_run: bool
) -> None:
    """Writes one file, if there are vectors for it, and adds it to `written`."""
    if dry_run or len(buffer) == 1:
        return
    path = file_name(name)
    written.files.append(path)
    sink = open_sink(f"{storage.root}/{path}", filesystem=storage.filesystem)
    sink.write_file(buffer)
    written.n_bytes += len(buffer)


def actions_of(snapshot: Snapshot, written: Written) -> tuple[list[dict[str, Any]], frozenset[str]]:
    """Returns the `add` and `remove` actions of changes, and the paths of their data files.

    Args:
        snapshot: the version that the changes were planned on.
        written: the new vectors.
    """
    rows = [new.task.row for new, _ in written.changes if isinstance(new.task, DeltaTask)]
    olds = snapshot.adds(rows)
    adds, removes = [], []
    for (new, descriptor), old in zip(written.changes, olds, strict=True):
        removes.append(remove_action(old))
        if descriptor is not None:
            add = dict(old)
            add["dataChange"] = True
            add["stats"] = _wide(old.get("stats"), new.task.data.record_count, snapshot.root)
            add["deletionVector"] = descriptor
            adds.append({"add": add})
    return adds + removes, frozenset(canonical_path(old["path"]) for old in olds)


def remove_action(old: Mapping[str, Any], *, data_change: bool = True) -> dict[str, Any]:
    """Returns the action that removes a file with its old vector.

    Args:
        old: its `add` action.
        data_change: False if its rows stay in the table, in another file.
    """
    found: dict[str, Any] = {
        "path": old["path"],
        "deletionTimestamp": int(time.time() * 1000),
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": old.get("partitionValues") or {},
        "size": old.get("size"),
    }
    names = ("tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
    found |= {name: old[name] for name in names if old.get(name) is not None}
    if old.get("stats"):
        count = parse(old["stats"], "stats of a file", old["path"], FileStats).get("numRecords")
        found |= {} if count is None else {"stats": as_json({"numRecords": count})}
    return {"remove": found}


def file_metrics(actions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Returns the metrics of the files of a commit, as Spark names and counts them for ``commitInfo``.

    A data file that has another vector than before is neither added nor removed.
    """
    adds, removes, n_changes = dict[str, Mapping[str, Any]](), dict[str, Mapping[str, Any]](), 0
    for action in actions:
        if "add" in action:
            adds[canonical_path(action["add"]["path"])] = action["add"]
        elif "remove" in action:
            removes[canonical_path(action["remove"]["path"])] = action["remove"]
        else:
            n_changes += "cdc" in action
    added = [add for path, add in adds.items() if path not in removes]
    removed = [remove for path, remove in removes.items() if path not in adds]
    new, old = (
        {path for path, one in files.items() if one.get("deletionVector")} for files in (adds, removes)
    )
    return {
        "numAddedFiles": len(added),
        "numRemovedFiles": len(removed),
        "numAddedBytes": sum(add["size"] for add in added),
        "numRemovedBytes": sum(remove.get("size") or 0 for remove in removed),
        "numAddedChangeFiles": n_changes,
        "numDeletionVectorsAdded": len(new),
        "numDeletionVectorsRemoved": len(old),
        "numDeletionVectorsUpdated": len(new & old),
    }


def rewrite_metrics(
    removes: Sequence[Mapping[str, Any]], adds: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Returns the metrics of a commit that rewrites data files, as Spark names them: `file_metrics`, and sizes."""
    kept = (
        "numAddedFiles",
        "numRemovedFiles",
        "numAddedBytes",
        "numRemovedBytes",
        "numDeletionVectorsRemoved",
    )
    found = file_metrics([*removes, *adds])
    sizes = sorted(add["add"]["size"] for add in adds) or [0]
    quarters = {
        f"{name}FileSize": sizes[(len(sizes) - 1) * at // 4]
        for at, name in enumerate(("min", "p25", "p50", "p75", "max"))
    }
    return {name: found[name] for name in kept} | quarters


def _wide(stats: str | None, n_rows: int, root: str) -> str:
    """Returns the same statistics with `tightBounds` false. The text of each number is copied, so that no digit
    changes."""
    pairs = [] if not stats else _pairs(stats, root)
    kept = [f"{as_json(name)}:{text}" for name, text in pairs if name not in ("numRecords", "tightBounds")]
    kept.insert(0, f'"numRecords":{n_rows}')
    return "{" + ",".join([*kept, '"tightBounds":false']) + "}"


def _pairs(stats: str, root: str) -> list[tuple[str, str]]:
    """Returns the names of a JSON object and the texts of their values."""
    decoder, text = json.JSONDecoder(), stats.strip()
    found = []
    try:
        if not isinstance(json.loads(text), dict):
            raise ValueError("no object")
        at = _skip(text, 1)
        while text[at] != "}":
            name, at = decoder.raw_decode(text, at)
            start = _skip(text, _skip(text, at) + 1)
            _, at = decoder.raw_decode(text, start)
            found.append((name, text[start:at]))
            at = _skip(text, at)
            at = _skip(text, at + 1) if text[at] == "," else at
    except ValueError as error:
        raise CorruptDataError(
            "stats of a file", path=root, expected="a JSON object", found=stats[:80]
        ) from error
    return found


def _skip(text: str, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at
