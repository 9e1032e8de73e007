"""The format of the table in a folder, by its folders of metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from puffin_fast._io.folder import missing_folder, names_in
from puffin_fast._process.interrupt import is_from_outside

METADATA_FILE = ".metadata.json"
"""A part of the names of Iceberg's metadata files."""


class Sign(NamedTuple):
    """What tables of a format have.

    Attributes:
        folder: a folder inside of the table's.
        part: a part of the names of files in it.
    """

    folder: str
    part: str

    def is_in(self, folder: str, filesystem: Any = None) -> bool:
        """Whether a folder has such a folder with such a file."""
        names = names_in(f"{folder}/{self.folder}", "", filesystem=filesystem)
        return any(self.part in file for file in names)


SIGNS: Mapping[str, Sign] = {
    "Iceberg": Sign("metadata", METADATA_FILE),
    "Delta": Sign("_delta_log", ".json"),
    "Paimon": Sign("snapshot", "snapshot-"),
    "Lance": Sign("_versions", ".manifest"),
}
"""By the name of a format."""


def other_format(folder: str, *, expected: str | None = None, filesystem: Any = None) -> str:
    """Returns what an error says about the format of the table in a folder, or that there is no such folder or bucket;
    empty if neither is known.

    Args:
        folder: the folder of the table. If it cannot be listed, that is no error here.
        expected: the format of which the table may be; None if it is not of the expected one.
        filesystem: the filesystem of the folder.
    """
    try:
        for name, sign in SIGNS.items():
            if name != expected and sign.is_in(folder, filesystem):
                return f"; it is a table of {name}: see puffin_fast.{name.lower()}"
        absent = missing_folder(folder, filesystem=filesystem)
        if absent is not None:
            return f"; {absent}"
    except Exception as error:
        if is_from_outside(error):
            raise
    return ""
