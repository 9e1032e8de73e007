"""The removal of files that a table does not need any more."""

from __future__ import annotations

import logging
import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._io import split_location
from puffin_fast._process.interrupt import interruptible, is_from_outside
from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.compat.locations import DATA_PATH, METADATA_PATH, path_opened_instead

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

METADATA_FILE = re.compile(r"[^/]\.metadata\.json(?:\.gz)?$")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Removed:
    """What became of files.

    Attributes:
        paths: the files that were removed.
        not_removed: a sentence for each file that could not be removed.
    """

    paths: tuple[str, ...] = ()
    not_removed: tuple[str, ...] = ()


def check_may_remove(table: Table) -> None:
    """Checks that the table's files may be removed.

    As in Java, ``true`` in any case is true, and any other value, such as ``no``, is false.

    Raises:
        UnsupportedError: the property ``gc.enabled`` is false: other tables may have the same files.
    """
    enabled = table.properties.get("gc.enabled", "true")
    if enabled.lower() != "true":
        raise UnsupportedError(
            f"{'.'.join(table.name())}: property gc.enabled is {enabled}: other tables may need its files, "
            "so none is removed"
        )


def inside(table: Table, paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Splits paths into those below the table's locations and others, each in the given order.

    Of local paths, ``..`` is resolved as the operating system does. In other locations it is a name like others, and
    a path that has it below the table's location counts as outside.
    """
    properties = table.properties
    places = [table.location(), properties.get(DATA_PATH), properties.get(METADATA_PATH)]
    prefixes = [f"{_spelt(place).rstrip('/')}/" for place in places if place]
    within: list[str] = []
    outside: list[str] = []
    for path in paths:
        found = _spelt(path)
        below = (found.removeprefix(prefix) for prefix in prefixes if found.startswith(prefix))
        own = any(".." not in rest.split("/") for rest in below)
        (within if own else outside).append(path)
    return within, outside


def _spelt(location: str) -> str:
    """A location without the differences of spelling that mean the same in any storage."""
    scheme, authority, path = split_location(location)
    if ".." in path.split("/") and scheme in ("", "file"):
        path = os.path.realpath(path)
    names = [name for name in path.split("/") if name not in ("", ".")]
    return f"{'' if scheme == 'file' else scheme}:{authority}:/{'/'.join(names)}"


def is_metadata_file(path: str) -> bool:
    """Returns whether a path has the name of a metadata file."""
    return METADATA_FILE.search(path) is not None


def path_below(path: str, folder: str) -> str | None:
    """Returns a path relative to a folder, in any spelling of the two; None if it is not below the folder."""
    prefix = f"{_normalised(folder).rstrip('/')}/"
    found = _normalised(path)
    return found.removeprefix(prefix) if found.startswith(prefix) else None


def _normalised(location: str) -> str:
    scheme, authority, path = split_location(location)
    return f"{'' if scheme == 'file' else scheme}:{authority}:{posixpath.normpath('/' + path.lstrip('/'))}"


def remove_all(io: FileIO, paths: Sequence[str], threads: int | None) -> Removed:
    """Removes files. One that does not exist any more counts as removed.

    A file is not removed if PyIceberg would remove another one: it takes ``a#b`` for ``a``.

    Args:
        io: the table's file access.
        paths: the files.
        threads: number of files removed at a time; the number of processors by default.
    """

    def remove(path: str) -> str | None:
        if (other := path_opened_instead(path, io)) is not None:
            return f"{path}: PyIceberg would remove {other}"
        try:
            with interruptible():
                io.delete(path)
        except FileNotFoundError:
            return None
        except Exception as error:
            if is_from_outside(error):
                raise
            return f"{path}: {error}"
        return None

    answers = list(zip(paths, on_threads(remove, paths, threads, label="removing files"), strict=True))
    for path, error in answers:
        if error is None:
            _LOG.debug("removed %s", path)
        else:
            _LOG.warning("not removed: %s", error)
    return Removed(
        tuple(path for path, error in answers if error is None), tuple(e for _, e in answers if e is not None)
    )
