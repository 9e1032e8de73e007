"""Replaces parts of PyIceberg's scans, so that they load deletion vectors through this package; can be undone."""

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
    """An active acceleration. `undo`, a call, or leaving the context manager ends it."""

    def __init__(self) -> None:
        self._on = True

    def undo(self) -> None:
        """Ends this acceleration. PyIceberg is restored when all accelerations have ended. Further calls do nothing."""
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
    """Makes PyIceberg's own scans load deletion vectors and apply position deletes through this package.

    It applies to this process: to `table.scan()` in all its forms (`to_arrow`, `to_arrow_batch_reader`,
    `to_pandas`, `to_polars`, `to_duckdb`, `count`), and to Polars' `scan_iceberg` where it loads deletion
    vectors through PyIceberg. Scans are faster. They also apply only the vector that the manifest entry
    references, not superseded ones in the same Puffin file. Plans made before the call should be made again.
    PyIceberg still raises for features that it does not support, such as equality deletes;
    `puffin_fast.iceberg.scan` reads those.

        puffin_fast.iceberg.accelerate()

        with puffin_fast.iceberg.accelerate():
            table.scan().to_arrow()

    Calls may be nested, and made from several threads. The acceleration ends with the last `undo`.

    Returns:
        The acceleration, which can be undone.

    Raises:
        UnsupportedError: this version of PyIceberg is not supported; nothing is changed.
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
        # a replacement that other code installed later is left in place
        if inspect.getattr_static(patch.owner, patch.name) is patch.ours:
            setattr(patch.owner, patch.name, before)
