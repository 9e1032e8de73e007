"""Values of objects that are made when they are first asked for, without a lock."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801  # the name of the one in functools
        """As Python 3.12 has it.

        Python 3.11 holds a lock of the class while a value is made: threads with other objects wait, and a process that
        is forked meanwhile waits for ever. Threads may make the value of one object twice; all get the same one.
        """

        def __init__(self, function: Any) -> None:
            self._function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, of: Any, owner: type | None = None) -> Any:
            return self if of is None else of.__dict__.setdefault(self._name, self._function(of))
