"""Tells exceptions that come from outside from those of the code that they come in.

A signal's handler runs between any two steps of a program, and so may raise its exception in any code: Python's own for
Ctrl-C a `KeyboardInterrupt`; those of limits of time (Celery, Airflow, pytest-timeout, `signal.setitimer`) a
`TimeoutError` or a class of their own, often an `Exception`. It says nothing about the file that was being parsed or
the request that was waited for.

Libraries report such an exception as an error of their own:

| library | the exception from outside is |
|---|---|
| Pydantic, a validator, for a `ValueError` | in the `errors()` of a `ValidationError` |
| Pydantic, a serializer that returns JSON | for Ctrl-C, in the message of a `PydanticSerializationError` |
| Pydantic, a serializer that returns Python objects | the cause of a `PydanticSerializationError` |
| SQLAlchemy, which closes a connection afterwards | the context of the error that this raises |
| SQLAlchemy, while a statement runs | the `orig` of a `StatementError` |
| Python, for a `StopIteration` in a generator | the cause of a `RuntimeError` |

Two are not told apart, and are reported as an error of what was running, with their text: an exception that another
thread sets into this one (`PyThreadState_SetAsyncExc`), and one that is not Ctrl-C in a serializer that returns JSON.
No outcome depends on it: a commit is settled by what the catalog or the log has, whatever the error is.
"""

from __future__ import annotations

import signal
import struct
import sys
import zlib
from contextlib import ContextDecorator, suppress
from types import CodeType, TracebackType

PARSE_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, LookupError, MemoryError, RuntimeError),
    *(StopIteration, TypeError, ValueError, struct.error, zlib.error),
)  # fmt: skip
"""What Python's and fastavro's parsers raise for wrong bytes: no `Exception` of a class that is not known."""


def is_from_outside(error: BaseException) -> bool:
    """Whether an exception was raised by a signal's handler or what it called."""
    traceback = error.__traceback__
    codes = _handlers() if traceback is not None else ()
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


class suppressed(suppress):  # noqa: N801 - named as what it replaces
    """As `contextlib.suppress`, except for exceptions from outside."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        is_own = error is None or not is_from_outside(error)
        return is_own and super().__exit__(kind, error, traceback)


class interruptible(ContextDecorator):  # noqa: N801 - a block, as `suppressed`
    """Raises the exception from outside that caused an error of the block, instead of this error.

    One that the caller was already handling before the block is not raised. This is not a generator, because a
    `StopIteration` does not leave one.
    """

    def _recreate_cm(self) -> interruptible:
        return interruptible()

    def __enter__(self) -> None:
        self._handled = sys.exception()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        found = _cause(error, self._handled) if isinstance(error, Exception) else None
        if found is None or found is error:
            return
        context = found.__context__
        try:
            raise found
        finally:
            found.__context__ = context  # not the error that it caused


def _cause(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """The exception from outside among an error and its causes: the first one, whose traceback others have too."""
    found = None
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        cause = left.pop(0)
        if cause is None or cause is handled or id(cause) in seen:
            continue
        seen.add(id(cause))
        if isinstance(cause, KeyboardInterrupt) or is_from_outside(cause):
            found = cause
        elif found is None and type(cause).__name__ == "PydanticSerializationError":
            found = KeyboardInterrupt() if "KeyboardInterrupt" in str(cause) else None
        left.append(cause.__cause__ or cause.__context__)
        left.append(getattr(cause, "orig", None))
        if type(cause).__name__ == "ValidationError" and hasattr(cause, "errors"):
            named = (detail.get("ctx", {}).get("error") for detail in cause.errors())
            left += (
                error for error in named if isinstance(error, BaseException)
            )  # for invalid JSON it is a string
    return found


def _handlers() -> set[CodeType]:
    """The code of the handlers that are set in Python."""
    found = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            function = getattr(handler, "func", handler)  # of a functools.partial
            function = getattr(function, "__func__", function)  # of a bound method
            code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
            if code is not None:
                found.add(code)
    return found
