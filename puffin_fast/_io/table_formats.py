"""The format of the table in a folder, by its folders of metadata, for errors that expected another one."""

from __future__ import annotations

from typing import Any

from puffin_fast._io.folder import missing_folder, names_in
from puffin_fast._process.interrupt import is_from_outside

_SIGNS = (
    ("Iceberg", "metadata", ".metadata.json"),
    ("Delta", "_delta_log", ".json"),
    ("Paimon", "snapshot", "snapshot-"),
    ("Lance", "_versions", ".manifest"),
)
"""Formats, a folder that their tables have, and a part of the names of files in it."""


def other_format(folder: str, *, expected: str | None = None, filesystem: Any = None) -> str:
    """Returns what an error says about the format of the table in a folder, or that there is no such folder or bucket;
    empty if neither is known.

    Args:
        folder: the folder of the table. If it cannot be listed, that is no error here.
        expected: the format of which the table may be; None if it is not of the expected one.
        filesystem: the filesystem of the folder.
    """
    try:
        for name, inside, part in _SIGNS:
            names = names_in(f"{folder}/{inside}", "", filesystem=filesystem)
            if name != expected and any(part in file for file in names):
                return f"; it is a table of {name}: see puffin_fast.{name.lower()}"
        absent = missing_folder(folder, filesystem=filesystem)
        if absent is not None:
            return f"; {absent}"
    except Exception as error:
        if is_from_outside(error):
            raise
    return ""
