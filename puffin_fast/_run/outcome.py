"""What became of the commit of a job that was interrupted: a note of the exception, which Python prints below it."""

from __future__ import annotations

from puffin_fast._run.interrupt import is_from_outside

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
    files = {0: "no file was written", 1: "1 file was removed"}.get(
        n_removed, f"{n_removed:,} files were removed"
    )
    return f"nothing was committed, {files}"
