"""Exceptions. The type is the kind of cause; the message has the location, what was expected and what was found."""

from __future__ import annotations

__all__ = [
    "CommitUnknownError",
    "ConflictError",
    "CorruptDataError",
    "EngineSupportWarning",
    "InvalidInputError",
    "JobInterruptedError",
    "LimitExceededError",
    "MissingExtraError",
    "NotFoundError",
    "PuffinFastError",
    "UnsupportedError",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class PuffinFastError(Exception):
    """Base class of the errors that this package raises."""


class InvalidInputError(PuffinFastError, ValueError):
    """An argument is invalid: a null, a negative position, a wrong dtype."""


class CorruptDataError(PuffinFastError, ValueError):
    """Bytes do not conform to their format.

    Args:
        what: the checked value, in the terms of the specification.
        path: the file, if known.
        offset: the byte offset of the value in the file or buffer, if known.
        expected: the value or range that the format allows.
        found: the value that was found.
    """

    def __init__(
        self,
        what: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        self.what = what
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found
        place = (None if path is None else str(path), None if offset is None else f"offset {offset}")
        where = [part for part in place if part is not None]
        detail = [
            f"{word} {value}"
            for word, value in (("expected", expected), ("found", found))
            if value is not None
        ]
        super().__init__(": ".join([*where, what, *([", ".join(detail)] if detail else [])]))

    def __reduce__(self) -> tuple[object, ...]:
        return _corrupt, (self.what, self.path, self.offset, self.expected, self.found)


def _corrupt(
    what: str, path: str | None, offset: int | None, expected: object, found: object
) -> CorruptDataError:
    """Rebuilds a `CorruptDataError` after pickling, which Spark uses to send errors to the driver."""
    return CorruptDataError(what, path=path, offset=offset, expected=expected, found=found)


class LimitExceededError(PuffinFastError, ValueError):
    """A limit of this package or of a format would be exceeded."""


class UnsupportedError(PuffinFastError):
    """A valid feature, codec or version that this package does not support."""


class MissingExtraError(PuffinFastError, ImportError):
    """A package behind an optional extra is not installed.

    Args:
        package: the package that could not be imported.
        extra: the extra of puffin-fast that installs it; None if the package is to be installed by itself.
    """

    def __init__(self, package: str, extra: str | None) -> None:
        self.package = package
        self.extra = extra
        wanted = package if extra is None else f"'puffin-fast[{extra}]'"
        super().__init__(f"{package} is not installed: pip install {wanted}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.package, self.extra)


class NotFoundError(PuffinFastError, LookupError):
    """A file, table, column or snapshot does not exist."""


class ConflictError(PuffinFastError):
    """Another commit made a conflicting change. This commit did not happen."""


class JobInterruptedError(PuffinFastError):
    """The work of a job was cancelled from outside, or lost its executors.

    The message says what was committed, and what was removed.
    """


class CommitUnknownError(PuffinFastError):
    """It is unknown whether a commit happened. No file was removed; the message describes what to do."""


class EngineSupportWarning(UserWarning):
    """A table gets a column of a type, or a feature, that some engines cannot read; the message names them."""
