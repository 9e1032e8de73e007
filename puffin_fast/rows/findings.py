"""What a check of a table found, and what it did not look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError
from puffin_fast.puffin.finding import Finding

Level: TypeAlias = Literal["metadata", "files", "rows"]
"""How much `verify` reads: metadata and deletes; also the footers of all data files; or also all rows."""


class Findings(list[Finding]):
    """The findings of `verify`, a list that is empty if there are none.

    Attributes:
        level: how much was read.
        data_files: number of live data files.
        unchecked: what was not checked, one sentence each.
    """

    def __init__(
        self, found: Iterable[Finding], *, level: Level, data_files: int, unchecked: Iterable[str]
    ) -> None:
        super().__init__(found)
        self.level, self.data_files, self.unchecked = level, data_files, tuple(unchecked)

    def __repr__(self) -> str:
        found = "\n".join(f"- {finding!r}" for finding in self)
        unchecked = f"; not checked: {', '.join(self.unchecked)}" if self.unchecked else ""
        head = f"{len(self):,} findings, {self.data_files:,} data files, level {self.level!r}{unchecked}"
        return f"{head}\n{found}" if found else head


def check_level(level: object) -> None:
    """Checks the argument `level` of `verify`.

    Raises:
        InvalidInputError: it has another value.
    """
    if not isinstance(level, str) or level not in get_args(Level):
        raise InvalidInputError(
            f"level: expected 'metadata', 'files' or 'rows', found {shown_argument(level)}"
        )


def unchecked_at(level: Level) -> list[str]:
    """What a level leaves out by itself."""
    if level == "metadata":
        return ["data files", "rows"]
    return ["values of the rows (level 'rows' decodes them)"] if level == "files" else []
