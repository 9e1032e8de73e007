"""Many small cases in one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

__all__ = ["each"]

Test = TypeVar("Test", bound=Callable[..., None])


def each(
    names: str | tuple[str, ...], cases: Iterable[Any], ids: Callable[[Any], object] | Iterable[str] = repr
) -> Callable[[Test], Test]:
    """`pytest.mark.parametrize` in one test, which runs all cases and reports each that fails.

    An item of its own takes pytest longer than a case of a few bytes. All cases share the fixtures of the test, so
    that none may change them.

    Args:
        names: of the parameters that a case gives, as for `pytest.mark.parametrize`.
        cases: one value each, or a tuple of as many as there are names. There has to be one.
        ids: a function of a value, or one text for each case, by which a failure names it.

    Raises:
        ExceptionGroup: of the test, with the exception of each case that failed; its note names the case.
    """
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    every = [case if len(given) > 1 else (case,) for case in cases]
    assert every, f"no cases of {names}"
    if callable(ids):
        labels = ["-".join(str(ids(value)) for value in case) for case in every]
    else:
        labels = list(ids)

    def of_all(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run_all(**fixtures: Any) -> None:
            failed: list[Exception] = []
            for label, case in zip(labels, every, strict=True):
                try:
                    test(**fixtures, **dict(zip(given, case, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failure = error if isinstance(error, Exception) else AssertionError(str(error))
                    failure.add_note(f"case: {label}")
                    failed.append(failure.with_traceback(error.__traceback__))
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(every)} cases failed", failed)

        left = [value for name, value in signature.parameters.items() if name not in given]
        run_all.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        del run_all.__wrapped__  # type: ignore[attr-defined]  # pytest would take the parameters of the test for fixtures
        return run_all  # type: ignore[return-value]

    return of_all
