"""How work reaches the executors: by name, through a function that travels by value.

A function nested in another one is pickled whole, so it runs where this package is missing, and can say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from puffin_fast import __version__
from puffin_fast.spark.session.sessions import NO_PACKAGE

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["by_name", "over_batches"]


def by_name(module: str, function: str) -> Callable[[], Callable[..., Any]]:
    """A picklable way to get at ``module.function`` on an executor.

    Returns:
        A function without arguments that imports and returns it there; where that fails, it raises a
        RuntimeError that names the executor's host and Python (our own classes do not exist there), and an
        UnsupportedError where the package is of another version than here.
    """
    trouble, version = NO_PACKAGE, __version__

    def find() -> Callable[..., Any]:
        import platform
        import sys
        from importlib import import_module

        where = f"{platform.node()} ({sys.executable}, Python {platform.python_version()})"
        try:
            there = import_module("puffin_fast")
            if there.__version__ != version:
                raise there.errors.UnsupportedError(
                    f"puffin_fast {there.__version__} on the executor {where}, expected {version}, the driver's"
                )
            found: Callable[..., Any] = getattr(import_module(module), function)
        except ImportError as error:
            raise RuntimeError(f"{trouble} {where}: {error}") from None
        return found

    return find


def over_batches(
    module: str, function: str, **options: Any
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The body of a `mapInArrow`: ``module.function(batches, **options)`` on the executor."""
    find = by_name(module, function)

    def body(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        yield from find()(batches, **options)

    return body
