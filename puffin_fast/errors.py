"""The exception tree: the type says whose fault it is, the message where, what was expected and found."""

from __future__ import annotations

__all__ = [
    "CommitUnknownError",
    "ConflictError",
    "CorruptDataError",
    "InvalidInputError",
    "LimitExceededError",
    "MissingExtraError",
    "NotFoundError",
    "PuffinFastError",
    "UnsupportedError",
]


class PuffinFastError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidInputError(PuffinFastError, ValueError):
    """The caller passed something that cannot be right: a null, a negative position, a wrong dtype."""


class CorruptDataError(PuffinFastError, ValueError):
    """Bytes that are not what their format says.

    Args:
        what: the check that failed, in the specification's words.
        path: the file, when known.
        offset: the byte offset in that file (or buffer) of the failed check, when known.
        expected: what the format demands there.
        found: what stands there.
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
        where = [part for part in (path, None if offset is None else f"offset {offset}") if part is not None]
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
    """Rebuilds a `CorruptDataError` after pickling: errors travel from Spark's workers to the driver."""
    return CorruptDataError(what, path=path, offset=offset, expected=expected, found=found)


class LimitExceededError(PuffinFastError, ValueError):
    """A stated limit of this package or of a format would be passed."""


class UnsupportedError(PuffinFastError):
    """A feature, codec or version that exists elsewhere and is not handled here."""


class MissingExtraError(PuffinFastError, ImportError):
    """A package behind an optional extra is not installed.

    Args:
        package: the package that could not be imported.
        extra: the extra of puffin-fast that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{package} is not installed: pip install 'puffin-fast[{extra}]'")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.package, self.extra)


class NotFoundError(PuffinFastError, LookupError):
    """A file, table, column or snapshot that is not there."""


class ConflictError(PuffinFastError):
    """A commit lost against another writer whose changes it cannot stand beside; the table is unchanged."""


class CommitUnknownError(PuffinFastError):
    """The catalog did not say whether a commit happened; nothing was deleted, the message says what to do."""
