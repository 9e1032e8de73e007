"""What a scan reads of a table, and what each of its steps leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puffin_fast._run.threads import on_threads
from puffin_fast._show.html import html_table

if TYPE_CHECKING:
    from puffin_fast.rows.tasks import Task

STEPS = PLAN, KEY_INDEX, DELETES, STATISTICS, BLOOM, DICTIONARIES, PAGES, COLUMNS = (
    "partitions and bounds",
    "key index",
    "deletes",
    "row group statistics",
    "Bloom filters",
    "dictionaries",
    "page index",
    "columns",
)
READ = "read"

_NAMES = ("data_files", "row_groups", "rows", "n_bytes")


@dataclass(frozen=True)
class Part:
    """A part of a table; None where a number is not known.

    Attributes:
        step: what leaves it out; ``"table"`` for all of it, or ``"read"``.
        data_files: number of data files.
        row_groups: number of row groups, of data files that are opened.
        rows: number of rows.
        n_bytes: their bytes: of data files that are not opened the size; of others the column chunks.
    """

    step: str
    data_files: int | None = 0
    row_groups: int | None = 0
    rows: int | None = 0
    n_bytes: int | None = 0

    @classmethod
    def files(cls, step: str, tasks: Iterable[Task]) -> Part:
        """Returns whole data files."""
        data = [task.data for task in tasks]
        rows, n_bytes = (sum(getattr(one, name) for one in data) for name in _OF_FILES)
        return cls(step, len(data), None, rows, n_bytes)

    def less(self, step: str, other: Part) -> Part:
        """Returns what is here and not in a part of it, as another step."""
        return Part(step, *(_difference(getattr(self, name), getattr(other, name)) for name in _NAMES))

    def row(self) -> dict[str, Any]:
        """Returns the numbers by name."""
        return {"step": self.step} | {name: getattr(self, name) for name in _NAMES}


_OF_FILES = ("record_count", "file_size_in_bytes")


def _difference(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part


@dataclass(frozen=True)
class Explanation:
    """What a scan reads of a table, and what each step leaves out; made by `Scan.explain`.

    Attributes:
        name: the scan.
        table: the whole table; its row groups are not known.
        left_out: what the steps leave out, in their order:

            - ``partitions and bounds``: data files whose partition or column bounds exclude a match;
            - ``key index``: data files and rows that have no key that the filter asks for;
            - ``deletes``: rows that position deletes and deletion vectors delete, and row groups without other rows;
            - ``row group statistics``: row groups whose statistics exclude a match;
            - ``Bloom filters``: row groups whose Bloom filters have none of the values that the filter asks for;
            - ``dictionaries``: row groups whose dictionary pages have none of these values, where they have all values;
            - ``page index``: pages whose bounds exclude a match: their rows, and their bytes in all needed columns;
            - ``columns``: the bytes of columns that are not needed, in row groups that are read.

        read: what is left: row groups that are read, their live rows, and the maximum of bytes, because a column that
            the filter does not need is read only where a row matches.
        notes: why an index of keys was not used.
    """

    name: str
    table: Part
    left_out: tuple[Part, ...]
    read: Part
    notes: tuple[str, ...] = ()

    def __getitem__(self, step: str) -> Part:
        """Returns what a step leaves out; zeros if it leaves out nothing."""
        return next((part for part in self.left_out if part.step == step), Part(step))

    def rows(self) -> list[dict[str, Any]]:
        """Returns a dict for the table, each step that leaves out something, and what is read."""
        return [part.row() for part in (self.table, *self.left_out, self.read)]

    def __repr__(self) -> str:
        head = [["", *(name.removeprefix("n_").replace("_", " ") for name in _NAMES)]]
        lines = head + [
            [row["step"], *("-" if row[name] is None else f"{row[name]:,}" for name in _NAMES)]
            for row in self.rows()
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(_padded(line, widths)).rstrip() for line in lines]
        return "\n".join([self.name, *text, *self.notes])

    def _repr_html_(self) -> str:
        return html_table([{"step": row["step"]} | _numbers(row) for row in self.rows()])


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = line
    return [
        first.ljust(widths[0]),
        *(text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)),
    ]


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("n_"): row[name] for name in _NAMES}


def explained(
    name: str,
    table: Part,
    planned: Sequence[Task],
    tasks: Sequence[Task],
    parts_of: Callable[[Task], Iterable[Part]],
    threads: int | None,
    notes: Sequence[str] = (),
) -> Explanation:
    """Opens data files as a scan does, and counts what it would read.

    Args:
        name: the name of the scan.
        table: the whole table.
        planned: the data files that partitions and bounds leave.
        tasks: those that the scan reads, after the index of keys.
        parts_of: returns what the steps leave out of a data file, and what is read of it.
        threads: number of threads; None: one for each processor.
        notes: the notes of the explanation.
    """
    left = {step: Part(step) for step in (*STEPS, READ)}
    files = Part.files(PLAN, planned)
    left[PLAN] = table.less(PLAN, files)
    by_index = files.less(KEY_INDEX, Part.files(READ, tasks))
    narrowed = sum(
        task.data.record_count - len(task.candidates) for task in tasks if task.candidates is not None
    )
    left[KEY_INDEX] = Part(
        KEY_INDEX, by_index.data_files, None, (by_index.rows or 0) + narrowed, by_index.n_bytes
    )
    for parts in on_threads(parts_of, tasks, threads):
        for part in parts:
            _add(left, part)
    read = left.pop(READ)
    kept = (part for part in left.values() if any(part.row()[name] for name in _NAMES))
    return Explanation(name, table, tuple(kept), read, tuple(notes))


def _add(parts: dict[str, Part], part: Part) -> None:
    before, numbers = parts[part.step], []
    for name in _NAMES:
        both = [value for value in (getattr(before, name), getattr(part, name)) if value is not None]
        numbers.append(sum(both) if both else None)
    parts[part.step] = Part(part.step, *numbers)
