"""Tables for a terminal whose rows have one line each.

If a table is wider than the terminal, heads take several lines, paths are cut in the middle and other text at its end.
Numbers are never cut. If that is not enough, columns in the middle are left out, and a line below names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.table import Table
from rich.text import Text

from puffin_fast._text import middle_cut

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

SHORTEST_PATH = 18
"""A path that is cut keeps at least this many characters."""

SHORTEST_TEXT = 8
"""A text that is cut keeps at least this many characters."""

LONGEST_HEAD = 12
"""The parts of a head, between ``_`` and spaces, have at least this width, if they are as long."""

FRAME = 3
"""Characters of the frame for each column; one more closes the table."""


@dataclass
class Column:
    """A column of a table.

    Attributes:
        head: its lines, the name first; the others are dim.
        cells: a text per row.
        is_number: whether it is aligned to the right and never cut.
        is_key: whether it says which row this is, so that it is the last one that is left out.
    """

    head: Sequence[str]
    cells: Sequence[Text]
    is_number: bool
    is_key: bool = False

    @property
    def justify(self) -> Literal["left", "right"]:
        """The side to which the cells are aligned."""
        return "right" if self.is_number else "left"

    def least(self) -> int:
        """The width that the column needs at least."""
        parts = max((len(part.rstrip(" ")) for line in self.head for part in _parts(line)), default=0)
        if self.is_number:
            return max(self.longest(), parts)
        is_path = any(_is_path(cell.plain) for cell in self.cells)
        return max(min(parts, LONGEST_HEAD), min(self.longest(), SHORTEST_PATH if is_path else SHORTEST_TEXT))

    def natural(self) -> int:
        """The width in which nothing is cut and the lines of the head are whole."""
        return max(self.longest(), *(len(line) for line in self.head))

    def longest(self) -> int:
        """The width of the longest cell."""
        return max((cell.cell_len for cell in self.cells), default=0)

    def headed(self, width: int) -> Text:
        """The head in a width: its lines are broken after ``_`` and spaces."""
        text = Text()
        for at, line in enumerate(self.head):
            broken = "\n".join(_cut(part, width) for part in _broken(line, width))
            text.append(f"{'' if at == 0 else chr(10)}{broken}", style="dim" if at else "")
        return text


@dataclass(frozen=True)
class OneLineTable:
    """A table whose rows have one line each.

    Attributes:
        columns: columns of equal length.
        title: above the table.
        hint: what shows the columns that are left out.
    """

    columns: Sequence[Column]
    title: str | None = None
    hint: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        shown = list(self.columns)
        hidden: list[str] = []
        while len(shown) > 1 and _width(column.least() for column in shown) > console.width:
            hidden.append(shown.pop(_least_needed(shown)).head[0])
        table = Table(
            title=None if self.title is None else Text(self.title), title_justify="left", title_style="bold"
        )
        widths = _widths(shown, console.width)
        for column, width in zip(shown, widths, strict=True):
            table.add_column(column.headed(width), justify=column.justify, width=width, no_wrap=True)
        for row in zip(*(column.cells for column in shown), strict=True):
            table.add_row(*map(_cut_cell, row, widths))
        yield table
        if hidden:
            names = [column.head[0] for column in self.columns if column.head[0] in hidden]
            yield Text(f"not shown for lack of room: {', '.join(names)}{self.hint}")


def _least_needed(columns: Sequence[Column]) -> int:
    """The column to leave out: one in the middle; of two beside the key, the wider one."""
    others = [at for at, column in enumerate(columns) if not column.is_key]
    if len(others) in (len(columns), 0):  # the first one is the key
        return len(columns) // 2
    return max(others, key=lambda at: columns[at].least()) if len(others) < 3 else others[len(others) // 2]


def _width(widths: Iterator[int]) -> int:
    return 1 + sum(width + FRAME for width in widths)


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """The widths of the columns: what is left beside the least widths is shared by the cells that want more, then by
    the heads."""
    widths = [column.least() for column in columns]
    left = width - _width(iter(widths))
    for wanted in ([column.longest() for column in columns], [column.natural() for column in columns]):
        while left > 0 and (wanting := [at for at, known in enumerate(widths) if known < wanted[at]]):
            share = max(1, left // len(wanting))
            for at in wanting:
                given = min(share, wanted[at] - widths[at], left)
                widths[at] += given
                left -= given
    return [max(1, min(one, width - FRAME - 1)) for one in widths]


def _parts(line: str) -> list[str]:
    return re.findall(r"[^_ ]*[_ ]|[^_ ]+", line)


def _broken(line: str, width: int) -> Iterator[str]:
    """The parts of a line, joined as far as they fit."""
    joined = ""
    for part in _parts(line):
        if joined and len(joined + part.rstrip(" ")) > width:
            yield joined.rstrip(" ")
            joined = ""
        joined += part
    yield joined.rstrip(" ")


def _is_path(text: str) -> bool:
    """Whether a text is a path, or the name of a file with a suffix."""
    return "/" in text or re.fullmatch(r"\S+\.[A-Za-z]\w*", text) is not None


def _cut_cell(text: Text, width: int) -> Text:
    return text if text.cell_len <= width else Text(_cut(text.plain, width))


def _cut(text: str, width: int) -> str:
    """A text in a width: paths are cut in the middle."""
    whole = Text(text)
    if whole.cell_len <= width:
        return text
    if not _is_path(text):
        whole.truncate(width, overflow="ellipsis")
        return whole.plain
    return middle_cut(text, width)
