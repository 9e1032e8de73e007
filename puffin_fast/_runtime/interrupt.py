"""Raises an interrupt (Ctrl-C) as such, where a library reports it as an error of its own.

| library | the `KeyboardInterrupt` is |
|---|---|
| Pydantic, a serializer that returns JSON | part of the message of a `PydanticSerializationError` |
| Pydantic, a serializer that returns Python objects | the cause of a `PydanticSerializationError` |
| SQLAlchemy, which closes a connection afterwards | the context of the error that this raises |
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interruptible"]


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises the `KeyboardInterrupt` that caused an error of the block, instead of this error.

    An interrupt that the caller was already handling before the block is not raised.
    """
    handled = sys.exception()
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and cause is not handled:
            if isinstance(cause, KeyboardInterrupt) or _is_named_by(cause):
                raise KeyboardInterrupt from error
            cause = cause.__cause__ or cause.__context__
        raise


def _is_named_by(error: BaseException) -> bool:
    return type(error).__name__ == "PydanticSerializationError" and ": KeyboardInterrupt" in str(error)
