"""PyIceberg's own scans made fast and right: one explicit line, undone by what it returns."""

from __future__ import annotations

import inspect
import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pyiceberg

from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.compat.pyiceberg_catalog import KNOWN_VERSIONS
from puffin_fast.iceberg.scan.pyiceberg_scans import PATCHES, Patch

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Acceleration", "accelerate"]

_lock = threading.Lock()
_active = 0
_replaced: list[tuple[Patch, Any]] = []


class Acceleration(AbstractContextManager["Acceleration"]):
    """What `accelerate` returns: ends it by `undo`, by being called, or as a context manager."""

    def __init__(self) -> None:
        self._on = True

    def undo(self) -> None:
        """Takes this acceleration back; PyIceberg is as before when all are. The second time does nothing."""
        global _active
        with _lock:
            if not self._on:
                return
            self._on = False
            _active -= 1
            if _active == 0:
                _restore()

    def __call__(self) -> None:
        self.undo()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def accelerate() -> Acceleration:
    """Lets PyIceberg's own scans load deletion vectors and apply position deletes through this package.

    From here on, in this process, `table.scan()` in all its forms (`to_arrow`, `to_arrow_batch_reader`,
    `to_pandas`, `to_polars`, `to_duckdb`, `count`) and Polars' `scan_iceberg` where it asks PyIceberg for
    vectors are faster, and right where PyIceberg is not: of a Puffin file only the vector counts that the
    manifest names. Plans made before should be made again. What PyIceberg refuses, as equality deletes, it
    refuses still; `puffin_fast.iceberg.scan` reads those.

        puffin_fast.iceberg.accelerate()

        with puffin_fast.iceberg.accelerate():
            table.scan().to_arrow()

    May be called again, nested and from several threads: it ends with the last `undo`.

    Returns:
        what undoes it.

    Raises:
        UnsupportedError: a PyIceberg that this file does not know; nothing is changed.
    """
    global _active
    with _lock:
        if _active == 0:
            _check()
            _install()
        _active += 1
    return Acceleration()


def _check() -> None:
    version = pyiceberg.__version__
    if ".".join(version.split(".")[:2]) not in KNOWN_VERSIONS:
        raise UnsupportedError(
            f"pyiceberg {version}: expected {' or '.join(f'{known}.x' for known in KNOWN_VERSIONS)}; "
            "accelerate() replaces parts of it that change between versions"
        )
    for patch in PATCHES:
        there = getattr(patch.owner, patch.name, None)
        found = None if there is None else tuple(inspect.signature(there).parameters)
        if found != patch.parameters:
            raise UnsupportedError(
                f"pyiceberg {version}: {patch.owner.__name__}.{patch.name}: expected parameters "
                f"{patch.parameters}, found {found}"
            )


def _install() -> None:
    for patch in PATCHES:
        _replaced.append((patch, inspect.getattr_static(patch.owner, patch.name)))
        setattr(patch.owner, patch.name, patch.ours)


def _restore() -> None:
    while _replaced:
        patch, before = _replaced.pop()
        # what someone else has put over ours since stays theirs
        if inspect.getattr_static(patch.owner, patch.name) is patch.ours:
            setattr(patch.owner, patch.name, before)
