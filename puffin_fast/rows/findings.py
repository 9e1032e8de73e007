"""What a check of a table found, and what it did not look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

from puffin_fast._text import counted, shown_argument
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
        found = "\n".join(f"- {finding.kind}: {sentence(finding)}" for finding in self)
        unchecked = f"; not checked: {', '.join(self.unchecked)}" if self.unchecked else ""
        counts = f"{counted(len(self), 'finding')}, {counted(self.data_files, 'data file')}"
        head = f"{counts}, level {self.level!r}{unchecked}"
        return f"{head}\n{found}" if found else head


def sentence(finding: Finding) -> str:
    """A finding as one line: the files that its message does not name come first."""
    files = dict.fromkeys(name for name in (finding.data_file, finding.path) if name)
    where = [name for name in files if name.rpartition("/")[2] not in finding.message]
    if finding.offset is not None and str(finding.offset) not in finding.message:
        where.append(f"offset {finding.offset}")
    return ": ".join([*where, finding.message])


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
