"""The live data files of a snapshot, from its manifests.

    snapshot -> baseManifestList, deltaManifestList (Avro) -> manifest/<name> (Avro)
    -> { _KIND 0 add, 1 delete | _PARTITION | _BUCKET | _FILE { _FILE_NAME, _FILE_SIZE, _ROW_COUNT, _LEVEL,
    _EXTERNAL_PATH? } }*

A data file is in the folder of its partition and bucket, ``part=1/bucket-0/``, if it has no external path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from puffin_fast.avro.file import parse_avro
from puffin_fast.errors import CorruptDataError
from puffin_fast.paimon.snapshots import TableFiles

_LISTS = ("baseManifestList", "deltaManifestList")
_OF_LIST = {"_FILE_NAME": str}
_OF_ENTRY = {
    "_KIND": int,
    "_PARTITION": bytes,
    "_BUCKET": int,
    "_FILE_NAME": str,
    "_FILE_SIZE": int,
    "_ROW_COUNT": int,
    "_LEVEL": int,
    "_EXTERNAL_PATH": str | None,
}
_ADD, _DELETE = 0, 1
_NESTED = ("_FILE",)
_POSTPONED = -2
"""The bucket of rows that have none yet."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live data file.

    Attributes:
        partition: in Paimon's binary form.
        bucket: its number.
        name: the name of the file.
        n_bytes: its size.
        n_rows: its rows, deleted ones included.
        external_path: None if the file is in the table's folder.
    """

    partition: bytes
    bucket: int
    name: str
    n_bytes: int
    n_rows: int
    external_path: str | None

    @property
    def place(self) -> str:
        """The end of its path: bucket and name."""
        bucket = "postpone" if self.bucket == _POSTPONED else self.bucket
        return f"bucket-{bucket}/{self.name}"


def live_data_files(files: TableFiles, snapshot: Mapping[str, Any], path: str) -> list[LiveFile]:
    """Returns the live data files of a snapshot, in the order in which they were added.

    Args:
        snapshot: its document.
        path: the path of the snapshot, for errors.

    Raises:
        NotFoundError: a manifest does not exist.
        CorruptDataError: a manifest is damaged, or its entries do not agree.
    """
    live: dict[tuple[bytes, int, int, str], LiveFile] = {}
    for manifest in _manifests(files, snapshot, path):
        for entry in _records(files, manifest, _OF_ENTRY):
            file = LiveFile(
                entry["_PARTITION"],
                entry["_BUCKET"],
                entry["_FILE_NAME"],
                entry["_FILE_SIZE"],
                entry["_ROW_COUNT"],
                entry.get("_EXTERNAL_PATH"),
            )
            key = (file.partition, file.bucket, entry["_LEVEL"], file.name)
            kind = entry["_KIND"]
            if kind == _ADD and key not in live:
                live[key] = file
            elif kind == _DELETE and key in live:
                del live[key]
            else:
                known = "live" if key in live else "not live"
                raise CorruptDataError(
                    f"kind of data file {file.name}, which is {known} before",
                    path=manifest,
                    expected="0 or 1",
                    found=kind,
                )
    return list(live.values())


def _manifests(files: TableFiles, snapshot: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in _LISTS:
        name = snapshot.get(key)
        if not isinstance(name, str) or not name:
            raise CorruptDataError(
                f"{key} of a snapshot", path=path, expected="the name of a file", found=name
            )
        for entry in _records(files, f"{files.root}/manifest/{name}", _OF_LIST):
            yield f"{files.root}/manifest/{entry['_FILE_NAME']}"


def _records(files: TableFiles, path: str, fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The records of an Avro file of metadata; each field has its type."""
    for record in parse_avro(files.read(path), path, dict(enumerate([*fields, *_NESTED]))).records():
        found = {**record, **(record.get("_FILE") or {})}
        for name, kind in fields.items():
            if not isinstance(found.get(name), kind):
                raise CorruptDataError(
                    f"entry of a manifest: {name}",
                    path=path,
                    expected=getattr(kind, "__name__", kind),
                    found=type(found.get(name)).__name__,
                )
        yield found
