"""Checks of manifests and manifest lists that a reader makes: types, required fields, counts, sequence numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from puffin_fast._kernels.rows.texts import Texts
from puffin_fast.avro.columns import Records
from puffin_fast.avro.integers import Column
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
    """Checks that no partition value is a list, map or union."""
    for column in file.plain.partition:
        if (found := file.plain.value_types.get(column.name, "null")) not in _PARTITION_TYPES:
            raise CorruptDataError(
                f"type of partition field {column.field_id}",
                path=file.path,
                offset=0,
                expected=" or ".join(_PARTITION_TYPES),
                found=found,
            )


_INTEGERS = (
    "status",
    "content",
    "record_count",
    "file_size_in_bytes",
    "snapshot_id",
    "sequence_number",
    "file_sequence_number",
    "first_row_id",
)
TEXTS = ("file_path", "file_format", "referenced_data_file")
LOCATED = (*_INTEGERS, *TEXTS)
"""The fields that are decoded of all entries."""


def integer_columns(records: Records) -> dict[str, Column]:
    """Decodes the fields of integers that are checked. Those that the file does not have are null."""
    return {
        name: records.integers(name) if name in records else Column.of(None, len(records))
        for name in _INTEGERS
    }


def path_at(file: AvroFile, row: int) -> str:
    """The ``file_path`` of an entry."""
    found: str = Records.of(file, ["file_path"]).take(np.array([row])).values(["file_path"])["file_path"][0]
    return found


def unchecked_texts(file: AvroFile, names: Collection[str]) -> set[str]:
    """The required texts among other fields than `names` that may be null, by the schema of a file."""
    kinds = {field["name"]: field["type"] for field in file.schema["fields"]}
    return {
        name for name in ("file_path", "file_format") if name not in names and kinds.get(name) != "string"
    }


def check_entries(
    file: AvroFile, records: Records, columns: dict[str, Column], manifest: ManifestFile
) -> tuple[list[str], Column]:
    """Checks required fields, contents and statuses; adds the contents that version 1 does not have.

    Args:
        file: the manifest's file.
        records: its records, with those of `unchecked_texts`.
        columns: their integers.
        manifest: its record in the manifest list.

    Returns:
        the distinct file formats in upper case, and the number of that of each file.
    """
    for name in _REQUIRED:
        if name in columns:
            missing = name not in records or not columns[name].short[1].all()
        elif name in records:
            missing = bool((records.spans(name)[1] < 0).any())
        else:
            missing = name not in file.plain.value_types
        if missing:
            raise CorruptDataError("entry of a manifest", path=manifest.path, expected=name, found="none")
    n_rows = columns["record_count"].short[0]
    for row in (int(n_rows.argmin()), int(n_rows.argmax())) if len(records) else ():
        if not 0 <= n_rows[row] <= _MAX_ROWS:
            raise CorruptDataError(
                f"record_count of {path_at(file, row)}",
                path=manifest.path,
                expected=f"0 to {_MAX_ROWS}",
                found=int(n_rows[row]),
            )
    if "content" not in records:
        columns["content"] = Column.of(DATA, len(records))
    content = (POSITION_DELETES, EQUALITY_DELETES) if manifest.content == DELETES else (DATA,)
    allowed = {"content": content, "status": (ADDED, EXISTING, DELETED)}
    for name, known in allowed.items():
        values, valid = columns[name].short
        wrong = ~valid | (values < min(known)) | (values > max(known))
        if wrong.any():
            row = int(wrong.argmax())
            raise CorruptDataError(
                f"{name} of {path_at(file, row)}",
                path=manifest.path,
                expected=" or ".join(map(str, range(min(known), max(known) + 1))),
                found=columns[name].take(np.array([row])).to_list()[0],
            )
    return _formats(file, records, manifest)


def _formats(file: AvroFile, records: Records, manifest: ManifestFile) -> tuple[list[str], Column]:
    known, numbers = spelled_formats(file, records)
    names = [name.decode().upper() for name in known]
    rows = [int((numbers.values == number).argmax()) for number in range(len(names))]
    for name, row in zip(names, rows, strict=True):
        if (
            manifest.content == DELETES and name not in DELETE_FORMATS
        ):  # defined by a later version of the specification
            raise UnsupportedError(
                f"{manifest.path}: file_format of {path_at(file, row)}: expected {' or '.join(DELETE_FORMATS)}, "
                f"found {name}"
            )
    return names, numbers


def spelled_formats(file: AvroFile | None, records: Records) -> tuple[list[bytes], Column]:
    """The distinct file formats as they are spelled, and the number of that of each file.

    Args:
        file: read if the records do not have the formats.
        records: the records.
    """
    known = records.numbered("file_format")
    if known is not None:
        return known
    return _distinct(
        records if file is None or "file_format" in records else Records.of(file, ["file_format"])
    )


def _distinct(records: Records) -> tuple[list[bytes], Column]:
    """The distinct formats, and the number of that of each file."""
    known, numbers = Texts(), np.empty(len(records), np.int64)
    data, starts, sizes = records.data, *records.spans("file_format")
    known.add(data, starts, sizes, numbers)
    rows = [int((numbers == number).argmax()) for number in range(len(known))]
    names = [bytes(data[starts[row] : starts[row] + sizes[row]]) for row in rows]
    return names, Column(numbers, np.ones(len(records), np.bool_))


def check_counts(status: Column, manifest: ManifestFile, file_size: int) -> None:
    """Checks that no entry is lost. Other wrong counts are read, as other engines do.

    Entries may be lost if the counts differ and the file is shorter than the manifest list states. Of deletes, whose
    rows would come back, they may be lost if there are fewer and the length is another one.
    """
    values, _ = status.short
    found = np.bincount(values, minlength=len(STATUSES)) * (len(status) // max(len(values), 1))
    for state, name in STATUSES.items():
        expected = getattr(manifest, f"{name}_files_count")
        if expected == found[state]:
            continue
        is_fewer = manifest.content == DELETES and expected is not None and found[state] < expected
        if file_size < manifest.length or (is_fewer and file_size != manifest.length):
            raise CorruptDataError(
                "size of a manifest", path=manifest.path, expected=manifest.length, found=file_size
            )


def check_sequence_numbers(columns: dict[str, Column], file: AvroFile, manifest: ManifestFile) -> None:
    """Checks data sequence numbers against those of the manifest list: a delete file of a wrong one does not apply.

    If a number is below the list's minimum and is also that of the file, the minimum is wrong, and nothing needs it.
    """
    live = columns["status"].short[0] != DELETED
    numbers, _ = columns["sequence_number"].short
    of_files, has_numbers = columns["file_sequence_number"].short
    low, high = manifest.min_sequence_number, manifest.sequence_number
    same = has_numbers & (of_files == numbers)
    wrong = live & ((numbers > high) | ((numbers < low) & ~same))
    if wrong.any():
        row = int(wrong.argmax())
        raise CorruptDataError(
            f"data sequence number of {path_at(file, row)}",
            path=manifest.path,
            expected=f"{low} to {high} (manifest list)",
            found=int(columns["sequence_number"].values[row]),
        )
