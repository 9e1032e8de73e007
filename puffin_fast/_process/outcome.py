"""Whether the commit of a job that was interrupted happened: a note of the exception, which Python prints below it."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._text import counted

_NOTED = "_outcome_of_commit"


def note_outcome(error: BaseException, outcome: str) -> None:
    """Adds a note to an exception that came from outside, such as Ctrl-C, unless it has one of an inner job."""
    if (isinstance(error, KeyboardInterrupt | SystemExit) or is_from_outside(error)) and outcome_of(
        error
    ) is None:
        setattr(error, _NOTED, outcome)
        error.add_note(outcome)


def outcome_of(error: BaseException) -> str | None:
    """The note of an exception about the commit; None if it came outside of a job."""
    return getattr(error, _NOTED, None)


def nothing_committed(n_removed: int) -> str:
    """The note for a commit that did not happen."""
    removed = f"{counted(n_removed, 'file')} {'was' if n_removed == 1 else 'were'} removed"
    files = removed if n_removed else "no file was written"
    return f"nothing was committed, {files}"


def note_earlier(error: BaseException, earlier: str) -> None:
    """Adds to the outcome of the last part of a job, or to the error that ended it, that earlier parts are done.

    Args:
        error: the exception that ended the last part.
        earlier: says which parts were done before.
    """
    outcome = outcome_of(error)
    setattr(error, _NOTED, earlier if outcome is None else f"{outcome}; {earlier}")
    error.add_note(earlier)


class until_commit(ContextDecorator):  # noqa: N801 - a block, as `suppressed`
    """Notes that nothing was committed, unless the commit inside of the block has noted its own outcome."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            note_outcome(error, nothing_committed(0))
