"""Entries of a manifest that a new one takes over: their records are copied, and only what they inherit is encoded.

    status: long | snapshot_id, sequence_number, file_sequence_number: optional long | data_file … first_row_id … |

An added entry becomes an existing one with its sequence numbers, snapshot id and first row id (table specification,
"Sequence Number Inheritance", "First Row ID Inheritance"). The rest is copied if both manifests encode it alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from puffin_fast.avro.blocks import as_long
from puffin_fast.avro.integers import Column, Mask
from puffin_fast.avro.programs import kernel_type, program
from puffin_fast.iceberg.manifest.checks import spelled_formats
from puffin_fast.iceberg.manifest.columns import FileColumns
from puffin_fast.iceberg.manifest.entries import DATA, DELETED, EXISTING, ManifestEntry

if TYPE_CHECKING:
    from puffin_fast.avro.schema import PlainSchema

_HEAD = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
_ROW_ID = "first_row_id"


@lru_cache(maxsize=64)
def _encoding(schema: PlainSchema) -> tuple[Any, ...] | None:
    """How entries are encoded; None if that is not known."""
    fields = [(field["name"], kernel_type(field["type"])) for field in schema.record["fields"]]
    names = [name for name, _ in fields]
    if any(kind is None for _, kind in fields) or tuple(names[:4]) != _HEAD or names[-1] == _ROW_ID:
        return None
    return tuple((name, tuple(program(kind))) for name, kind in fields), *_rest(schema)


def _rest(schema: PlainSchema) -> tuple[Any, ...]:
    return tuple(schema.partition), tuple(schema.constants.items()), tuple(schema.branches)


class EntryCopies:
    """The live entries of a manifest, some of which are removed.

    Args:
        files: all entries of the manifest, with all fields.
        removed: which of them the new snapshot removes; they are live.
        snapshot_id: the id of the new snapshot.
        was_deleted: which entries were removed before; they are left out.
    """

    def __init__(self, files: FileColumns, removed: Mask, snapshot_id: int, was_deleted: Mask) -> None:
        self._every, self._live = files, ~was_deleted
        self.files = files.take(self._live)
        self.status = np.where(removed[self._live], DELETED, EXISTING)
        snapshots = self.files.integers("snapshot_id").filled(snapshot_id)
        self._snapshots = Column(
            np.where(self.status == DELETED, snapshot_id, snapshots.values), snapshots.valid
        )

    def __len__(self) -> int:
        return len(self.status)

    def can_copy(self, schema: PlainSchema) -> bool:
        """Whether a manifest of a schema can have copies of the records. Formats in lower case are spelled anew."""
        if any(name != name.upper() for name in spelled_formats(None, self._every.records)[0]):
            return False
        own = self._every.records.encoding(), *_rest(self.files.schema)
        return own == _encoding(schema) and bool(self.files.integers("sequence_number").valid.all())

    def entries(self) -> list[ManifestEntry]:
        """Makes the entries."""
        found = self.files.entries()
        for entry, status, snapshot in zip(
            found, self.status.tolist(), self._snapshots.to_list(), strict=True
        ):
            entry.status, entry.snapshot_id = status, snapshot
        return found

    def __iter__(self) -> Iterator[ManifestEntry]:
        return iter(self.entries())

    def records(self) -> Iterator[bytes]:
        """Yields the encoded records of the entries."""
        schema, records = self.files.schema, self._every.records
        kinds = {field["name"]: field["type"] for field in schema.record["fields"]}
        names = [name for name, _ in records.encoding()]  # unknown fields are not among them
        encode = [_encoder(kinds[name]) for name in _HEAD]
        columns = [self.files.integers(name).to_list() for name in _HEAD[2:]]
        heads = [*zip(self.status.tolist(), self._snapshots.to_list(), *columns, strict=True)]
        known = {
            head: b"".join(one(value) for one, value in zip(encode, head, strict=True)) for head in {*heads}
        }
        data, has_row_id = memoryview(records.data), _ROW_ID in names
        wanted = [names[len(_HEAD)], *((_ROW_ID, names[names.index(_ROW_ID) + 1]) if has_row_id else ())]
        starts, *middle = (places[self._live].tolist() for places in records.places(wanted))
        ends = records.ends()[self._live].tolist()
        if not has_row_id:
            for head, start, end in zip(heads, starts, ends, strict=True):
                yield b"".join((known[head], data[start:end]))
            return
        row_id, no_ids = _encoder(kinds[_ROW_ID]), [None] * len(self)
        is_data = self.files.manifest.content == DATA
        ids: Sequence[int | None] = self.files.integers(_ROW_ID).to_list() if is_data else no_ids
        for head, start, stop, first, again, end in zip(
            heads, starts, middle[0], ids, middle[1], ends, strict=True
        ):
            yield b"".join((known[head], data[start:stop], row_id(first), data[again:end]))


def _encoder(kind: Any) -> Any:
    """Encodes values of a type of longs, which may be optional."""
    if not isinstance(kind, list):
        return as_long
    null = as_long(kind.index("null"))
    prefix = as_long(1 - kind.index("null"))
    return lambda value: null if value is None else prefix + as_long(value)
