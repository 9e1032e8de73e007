"""New deletion vectors of a Delta table: written to `.bin` files, and turned into actions.

For each data file that lost rows the log gets an `add` that repeats the old one word for word, with the new vector and
statistics that say that they are wider than the rows, and a `remove` of the path with its *old* vector: a remove
without it brings the rows back in some readers. A data file of which no row is left is removed only.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from puffin_fast._runtime import open_sink
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.read.descriptors import descriptor_of, file_name
from puffin_fast.delta.read.plan import DeltaTask
from puffin_fast.dv import delta as codec
from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.deletes.outcome import NewDeletes

__all__ = ["TARGET_FILE_SIZE", "Written", "actions_of", "remove_action", "write_vectors"]

TARGET_FILE_SIZE = 64 << 20
"""Bytes after which another file of vectors is begun."""


@dataclass
class Written:
    """Vectors that were written for one commit.

    Attributes:
        changes: data files that lost rows, each with its new descriptor; None: no row is left.
        files: the files of vectors, below the table.
        rows: rows newly deleted.
        merged: vectors that took over earlier ones.
        n_bytes: bytes of the files.
    """

    changes: list[tuple[NewDeletes, dict[str, Any] | None]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    rows: int = 0
    merged: int = 0
    n_bytes: int = 0

    @property
    def dropped(self) -> int:
        """Data files of which no row is left."""
        return sum(descriptor is None for _, descriptor in self.changes)

    @property
    def vectors(self) -> int:
        """Vectors, one per data file of which rows are left."""
        return len(self.changes) - self.dropped


def write_vectors(storage: TableStorage, deletes: Iterable[NewDeletes], *, dry_run: bool = False) -> Written:
    """Writes the vectors of one commit into as few files as the target size allows; when anything fails, none.

    Args:
        storage: the table's.
        deletes: at most one per data file; those without a new position are passed over.
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
            if len(buffer) >= TARGET_FILE_SIZE:
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
    """Writes one file of vectors, if it has any, and notes it in `written`."""
    if dry_run or len(buffer) == 1:
        return
    path = file_name(name)
    written.files.append(path)
    sink = open_sink(f"{storage.root}/{path}", filesystem=storage.filesystem)
    sink.write_file(buffer)
    written.n_bytes += len(buffer)


def actions_of(snapshot: Snapshot, written: Written) -> tuple[list[dict[str, Any]], frozenset[str]]:
    """The `add` and `remove` actions of changes, and the data files that they touch.

    Args:
        snapshot: what was planned on.
        written: their new vectors.
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
    return adds + removes, frozenset(unquote(old["path"]) for old in olds)


def remove_action(old: Mapping[str, Any], *, data_change: bool = True) -> dict[str, Any]:
    """The action that removes a file with its old vector.

    Args:
        old: its `add` action.
        data_change: False where its rows stay in the table.
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
    return {"remove": found | {name: old[name] for name in names if old.get(name) is not None}}


def _wide(stats: str | None, n_rows: int, root: str) -> str:
    """The same statistics with `tightBounds` false; the texts of numbers are kept, so that no digit changes."""
    pairs = [] if not stats else _pairs(stats, root)
    kept = [f"{json.dumps(name)}:{text}" for name, text in pairs if name != "tightBounds"]
    if not any(name == "numRecords" for name, _ in pairs):
        kept.insert(0, f'"numRecords":{n_rows}')
    return "{" + ",".join([*kept, '"tightBounds":false']) + "}"


def _pairs(stats: str, root: str) -> list[tuple[str, str]]:
    """The names of a JSON object and the texts of their values."""
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
