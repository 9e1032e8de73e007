"""Replaces functions and classes of another package, checked by their parameters; can be undone."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from puffin_fast.errors import UnsupportedError

if TYPE_CHECKING:
    from types import TracebackType


class Patch(NamedTuple):
    """A function or class of another package that is replaced.

    Attributes:
        owner: its module or class.
        name: its name there.
        ours: the replacement.
        parameters: its parameters in the supported versions.
    """

    owner: Any
    name: str
    ours: Any
    parameters: tuple[str, ...]


class Patches:
    """The patches of one package. They are active while at least one `Acceleration` is.

    Args:
        package: its name, with the version.
        patches: returns the patches.
    """

    def __init__(self, package: str, patches: Callable[[], Sequence[Patch]]) -> None:
        self._package, self._patches = package, patches
        self._lock = threading.Lock()
        self._active = 0
        self._replaced: list[tuple[Patch, Any]] = []

    def begin(self) -> Acceleration:
        """Activates the patches.

        Raises:
            UnsupportedError: a function has other parameters; nothing is changed.
        """
        with self._lock:
            if self._active == 0:
                patches = self._patches()
                self._check(patches)
                for patch in patches:
                    self._replaced.append((patch, inspect.getattr_static(patch.owner, patch.name)))
                    setattr(patch.owner, patch.name, patch.ours)
            self._active += 1
        return Acceleration(self._package, self._end)

    def _check(self, patches: Sequence[Patch]) -> None:
        for patch in patches:
            there = getattr(patch.owner, patch.name, None)
            found = None if there is None else tuple(inspect.signature(there).parameters)
            if found != patch.parameters:
                raise UnsupportedError(
                    f"{self._package}: {patch.owner.__name__}.{patch.name}: expected parameters "
                    f"{patch.parameters}, found {found}"
                )

    def _end(self) -> None:
        with self._lock:
            self._active -= 1
            while self._active == 0 and self._replaced:
                patch, before = self._replaced.pop()
                # a replacement that other code installed later is left in place
                if inspect.getattr_static(patch.owner, patch.name) is patch.ours:
                    setattr(patch.owner, patch.name, before)


class Acceleration(AbstractContextManager["Acceleration"]):
    """An active acceleration. `undo`, a call, or leaving the context manager ends it."""

    def __init__(self, package: str, end: Callable[[], None]) -> None:
        self._package = package
        self._end: Callable[[], None] | None = end
        self._lock = threading.Lock()

    def undo(self) -> None:
        """Ends this acceleration. The package is restored when all have ended. Further calls do nothing."""
        with self._lock:
            end, self._end = self._end, None
        if end is not None:
            end()

    def __call__(self) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<Acceleration of {self._package}: {'ended' if self._end is None else 'active'}>"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()
