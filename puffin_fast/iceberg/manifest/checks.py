"""Checks of manifests and manifest lists that a reader makes: types, required fields, counts, sequence numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.iceberg.manifest.entries import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EQUALITY_DELETES,
    EXISTING,
    POSITION_DELETES,
    STATUSES,
    ManifestFile,
)

if TYPE_CHECKING:
    from puffin_fast.avro.file import AvroFile

DELETE_FORMATS = ("PUFFIN", "PARQUET", "AVRO", "ORC")
_REQUIRED = ("status", "file_path", "file_format", "record_count", "file_size_in_bytes")
_PARTITION_TYPES = ("null", "boolean", "long", "double", "bytes", "string")
_MAX_ROWS = 1 << 48
"""The largest number of rows of a file that is accepted; sums of such numbers fit in 64 bits."""


def check_types(file: AvroFile, types: Mapping[str, str]) -> None:
    """Checks the types of the fields in the schema of a file."""
    for name, found in file.plain.value_types.items():
        if name in types and found != types[name]:
            raise CorruptDataError(
                f"type of {name}", path=file.path, offset=0, expected=types[name], found=found
            )


def check_partition_types(file: AvroFile) -> None:
    """Checks that partition values are no lists, maps or unions."""
    for column in file.plain.partition:
        if (found := file.plain.value_types.get(column.name, "null")) not in _PARTITION_TYPES:
            raise CorruptDataError(
                f"type of partition field {column.field_id}",
                path=file.path,
                offset=0,
                expected=" or ".join(_PARTITION_TYPES),
                found=found,
            )


def check_entries(columns: dict[str, Any], manifest: ManifestFile) -> None:
    """Checks required fields, contents and statuses; adds the columns that version 1 does not have."""
    for name in _REQUIRED:
        if name not in columns or None in columns[name]:
            raise CorruptDataError("entry of a manifest", path=manifest.path, expected=name, found="none")
    n_entries = len(columns["status"])
    for n_rows in (min(columns["record_count"], default=0), max(columns["record_count"], default=0)):
        if not 0 <= n_rows <= _MAX_ROWS:
            path = columns["file_path"][columns["record_count"].index(n_rows)]
            raise CorruptDataError(
                f"record_count of {path}", path=manifest.path, expected=f"0 to {_MAX_ROWS}", found=n_rows
            )
    columns.setdefault("content", [DATA] * n_entries)
    for name in ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id"):
        columns.setdefault(name, [None] * n_entries)
    formats = {name: name.upper() for name in set(columns["file_format"])}
    columns["file_format"] = list(map(formats.__getitem__, columns["file_format"]))
    allowed: dict[str, Sequence[Any]] = {"content": (DATA,), "status": (ADDED, EXISTING, DELETED)}
    if manifest.content == DELETES:
        allowed |= {"content": (POSITION_DELETES, EQUALITY_DELETES), "file_format": DELETE_FORMATS}
    for name, known in allowed.items():
        for found in set(columns[name]).difference(known):
            path = columns["file_path"][columns[name].index(found)]
            expected = " or ".join(map(str, known))
            if name == "file_format":  # of a later version of the specification, perhaps
                raise UnsupportedError(
                    f"{manifest.path}: file_format of {path}: expected {expected}, found {found}"
                )
            raise CorruptDataError(f"{name} of {path}", path=manifest.path, expected=expected, found=found)


def check_counts(status: Sequence[int], manifest: ManifestFile, file_size: int) -> None:
    """Checks that no entry is lost. Other wrong counts are read, as other engines do.

    Entries may be lost if the counts differ and the file is shorter than the manifest list states. Of deletes, whose
    rows would come back, they may be lost if there are fewer and the length is another one.
    """
    found = Counter(status)
    for state, name in STATUSES.items():
        expected = getattr(manifest, f"{name}_files_count")
        if expected == found[state]:
            continue
        is_fewer = manifest.content == DELETES and expected is not None and found[state] < expected
        if file_size < manifest.length or (is_fewer and file_size != manifest.length):
            raise CorruptDataError(
                "size of a manifest", path=manifest.path, expected=manifest.length, found=file_size
            )


def check_sequence_numbers(columns: dict[str, Any], manifest: ManifestFile) -> None:
    """Checks data sequence numbers against those of the manifest list: a delete file of a wrong one does not apply.

    If a number is below the list's minimum and is also that of the file, the minimum is wrong, and nothing needs it.
    """
    states, numbers = columns["status"], columns["sequence_number"]
    low, high = manifest.min_sequence_number, manifest.sequence_number
    live = [number for number, state in zip(numbers, states, strict=True) if state != DELETED]
    if not live or low <= min(live) <= max(live) <= high:
        return
    of_files = columns["file_sequence_number"]
    for at, (number, state) in enumerate(zip(numbers, states, strict=True)):
        if state != DELETED and (number > high or (number < low and number != of_files[at])):
            raise CorruptDataError(
                f"data sequence number of {columns['file_path'][at]}",
                path=manifest.path,
                expected=f"{low} to {high} (manifest list)",
                found=number,
            )
