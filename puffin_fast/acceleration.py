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
        self._active: set[Acceleration] = set()
        self._replaced: list[tuple[Patch, Any]] = []

    def begin(self) -> Acceleration:
        """Activates the patches.

        Raises:
            UnsupportedError: a function has other parameters; nothing is changed.
        """
        acceleration = Acceleration(self._package, self._end)
        try:  # an exception from outside may come between any two steps
            with self._lock:
                if not self._active:
                    self._replace()
                self._active.add(acceleration)
            return acceleration
        except BaseException:
            acceleration.undo()
            raise

    def _replace(self) -> None:
        self._restore()  # what an interrupted end left
        patches = self._patches()
        self._check(patches)
        for patch in patches:
            self._replaced.append((patch, inspect.getattr_static(patch.owner, patch.name)))
            setattr(patch.owner, patch.name, patch.ours)

    def _check(self, patches: Sequence[Patch]) -> None:
        for patch in patches:
            there = getattr(patch.owner, patch.name, None)
            found = None if there is None else tuple(inspect.signature(there).parameters)
            if found != patch.parameters:
                raise UnsupportedError(
                    f"{self._package}: {patch.owner.__name__}.{patch.name}: expected parameters "
                    f"{patch.parameters}, found {found}"
                )

    def _end(self, acceleration: Acceleration) -> None:
        with self._lock:
            self._active.discard(acceleration)
            if not self._active:
                self._restore()

    def _restore(self) -> None:
        while self._replaced:
            patch, before = self._replaced[-1]
            # a replacement that other code installed later is left in place
            if inspect.getattr_static(patch.owner, patch.name) is patch.ours:
                setattr(patch.owner, patch.name, before)
            self._replaced.pop()


class Acceleration(AbstractContextManager["Acceleration"]):
    """An active acceleration. `undo`, a call, or leaving the context manager ends it."""

    def __init__(self, package: str, end: Callable[[Acceleration], object]) -> None:
        self._package, self._end, self._is_active = package, end, True

    def undo(self) -> None:
        """Ends this acceleration. The package is restored when all have ended. Further calls do nothing."""
        self._end(self)
        self._is_active = False

    def __call__(self) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<Acceleration of {self._package}: {'active' if self._is_active else 'ended'}>"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()
