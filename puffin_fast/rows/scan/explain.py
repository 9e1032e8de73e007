"""What a scan or a verb reads of a table, and what each of its steps leaves out."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from puffin_fast._display.html import html_table
from puffin_fast.rows.tasks import PlannedTasks, total

if TYPE_CHECKING:
    from puffin_fast.rows.files.reader import OpenedFile
    from puffin_fast.rows.tasks import Task

STEPS = PLAN, KEY_INDEX, PROVED, DELETES, STATISTICS, BLOOM, DICTIONARIES, PAGES, COLUMNS = (
    "partitions and bounds",
    "key index",
    "bounds of all rows",
    "deletes",
    "row group statistics",
    "Bloom filters",
    "dictionaries",
    "page index",
    "columns",
)
TABLE, READ = "table", "read"

_NAMES = ("data_files", "row_groups", "rows", "n_bytes")
_GROUPS = _NAMES.index("row_groups")


@dataclass(frozen=True)
class ScanStep:
    """What a step of a scan leaves out or reads; None where a number is not known.

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
    def files(cls, step: str, tasks: Sequence[Task]) -> ScanStep:
        """Returns whole data files."""
        return cls(step, len(tasks), None, total(tasks, "record_count"), total(tasks, "file_size_in_bytes"))

    def less(self, step: str, other: ScanStep) -> ScanStep:
        """Returns what is here and not in a part of it, as another step."""
        return ScanStep(step, *(_difference(getattr(self, name), getattr(other, name)) for name in _NAMES))

    def row(self) -> dict[str, Any]:
        """Returns the numbers by name."""
        return {"step": self.step} | {name: getattr(self, name) for name in _NAMES}


def _difference(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part


@dataclass(frozen=True)
class Explanation:
    """What a scan or a verb reads of a table, and what each step leaves out.

    `Scan.explain` makes it, and results of verbs that search rows have it.

    Attributes:
        name: the scan; or the table and the head that a verb read.
        table: the whole table; its row groups are not known.
        left_out: what the steps leave out, in their order:

            - ``partitions and bounds``: data files whose partition or column bounds exclude a match;
            - ``key index``: data files and rows that have no key that the filter asks for;
            - ``bounds of all rows``: data files whose partition or column bounds prove that a verb changes all rows;
            - ``deletes``: rows that position deletes and deletion vectors delete, and row groups without other rows;
            - ``row group statistics``: row groups whose statistics exclude a match;
            - ``Bloom filters``: row groups whose Bloom filters have none of the values that the filter asks for;
            - ``dictionaries``: row groups whose dictionary pages have none of these values, where they have all values;
            - ``page index``: pages whose bounds exclude a match: their rows, and their bytes in all needed columns;
            - ``columns``: the bytes of columns that are not needed, in row groups that are read.

        read: what is left: row groups that are read, their live rows, and the maximum of bytes, because a column that
            the filter does not need is read only where a row matches. Of a verb: the columns by which rows are
            selected; others are read, too, where rows are replaced. Deletes search deleted rows, too.
        notes: why an index of keys was not used.
    """

    name: str
    table: ScanStep
    left_out: tuple[ScanStep, ...]
    read: ScanStep
    notes: tuple[str, ...] = ()

    def __getitem__(self, step: str) -> ScanStep:
        """Returns what a step leaves out; zeros if it leaves out nothing."""
        return next((part for part in self.left_out if part.step == step), ScanStep(step))

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


_Numbers: TypeAlias = "tuple[str, int | None, int | None, int | None, int | None]"
"""The attributes of a `ScanStep`."""

_Files: TypeAlias = "tuple[int, int, int]"
"""Number of data files, of their rows that may match, and of their bytes."""

_NO_FILES = 0, 0, 0


class Reads:
    """Counts what a scan or a verb reads. Safe to use from several threads.

    What other processes count is added: it is pickled.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, list[int | None]] = {}
        self._unopened = {PROVED: _NO_FILES, KEY_INDEX: _NO_FILES}
        self._opened: dict[int, Task] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        with self._lock:
            return _restored, ({step: [*found] for step, found in self._numbers.items()}, {**self._unopened})

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def __iadd__(self, other: Reads) -> Self:
        for step, numbers in other._numbers.items():
            self._add(step, *numbers)
        for step, files in other._unopened.items():
            self._unopened[step] = _sum(self._unopened[step], files)
        return self

    def plan(self, table: ScanStep, tasks: Sequence[Task], before_index: Sequence[Task] | None) -> None:
        """Counts what a plan leaves out. A verb that divides its keys makes several plans.

        Args:
            table: the whole table.
            tasks: the data files to read.
            before_index: those that partitions and bounds leave; None if an index of keys was asked before them.
        """
        files = ScanStep.files(READ, tasks)
        left_out = [table]
        if before_index is None:
            left_out.append(table.less(KEY_INDEX, files))
        else:
            known = files if before_index is tasks else ScanStep.files(READ, before_index)
            left_out += table.less(PLAN, known), known.less(KEY_INDEX, files)
        is_plan = isinstance(tasks, PlannedTasks)  # without an index of keys
        narrowed = [] if is_plan else [task for task in tasks if task.candidates is not None]
        before, left = ScanStep.files(READ, narrowed), sum(map(_n_rows, narrowed))
        whole = files.less(PROVED, before)
        with self._lock:
            self._close_plan()
            for part in left_out:
                self._add(part.step, *(getattr(part, name) for name in _NAMES))
            self._add(KEY_INDEX, 0, 0, (before.rows or 0) - left, 0)
            self._unopened[PROVED] = whole.data_files or 0, whole.rows or 0, whole.n_bytes or 0
            self._unopened[KEY_INDEX] = len(narrowed), left, before.n_bytes or 0

    def opened(self, task: Task, file: OpenedFile | None, columns: Sequence[str] = ()) -> None:
        """Counts what of an opened data file is read, once for each plan.

        Args:
            file: the data file; None if all its rows are deleted.
            columns: the columns that are read beside those that select rows.
        """
        with self._lock:
            if id(task) not in self._opened:
                self._opened[id(task)] = task
                for numbers in _numbers_of(task, file, columns):
                    self._add(*numbers)
                step = PROVED if task.candidates is None else KEY_INDEX
                one = -1, -_n_rows(task), -task.data.file_size_in_bytes
                self._unopened[step] = _sum(self._unopened[step], one)

    def opened_there(self, task: Task, counted: Reads) -> None:
        """Adds what another process counted for a data file, once for each plan."""
        with self._lock:
            if counted and id(task) not in self._opened:
                self._opened[id(task)] = task
                self += counted

    def explanation(self, name: str, notes: Sequence[str] = ()) -> Explanation | None:
        """Returns what was counted; None if nothing was planned."""
        with self._lock:
            self._close_plan()
            parts = {step: ScanStep(step, *numbers) for step, numbers in self._numbers.items()}
            kept = tuple(parts[step] for step in STEPS if any(self._numbers.get(step, ())))
        if TABLE not in parts:
            return None
        return Explanation(name, parts[TABLE], kept, parts.get(READ, ScanStep(READ)), tuple(notes))

    def _close_plan(self) -> None:
        """Data files that were not opened: their bounds, or an index of keys, say which rows match."""
        for step, (n_files, n_rows, n_bytes) in self._unopened.items():
            if n_files:
                self._add(step, n_files, None, n_rows, n_bytes)
            self._unopened[step] = _NO_FILES
        self._opened = {}

    def _add(self, step: str, *numbers: int | None) -> None:
        before = self._numbers.get(step)
        if before is None:
            self._numbers[step] = [*numbers]
            return
        for at, (known, number) in enumerate(zip(before, numbers, strict=True)):
            if at == _GROUPS:  # those of data files that are opened
                before[at] = known if number is None else number + (known or 0)
            else:
                before[at] = None if known is None or number is None else known + number


def _restored(numbers: dict[str, list[int | None]], unopened: dict[str, _Files]) -> Reads:
    found = Reads()
    found._numbers, found._unopened = numbers, unopened
    return found


def _sum(some: _Files, others: _Files) -> _Files:
    return some[0] + others[0], some[1] + others[1], some[2] + others[2]


def _n_rows(task: Task) -> int:
    """The number of rows that may match."""
    return task.data.record_count if task.candidates is None else len(task.candidates)


def _numbers_of(task: Task, file: OpenedFile | None, columns: Sequence[str]) -> Iterator[_Numbers]:
    """What of a data file is read, and what each step leaves out."""
    data, left = task.data, _n_rows(task)
    if file is None:
        yield DELETES, 1, None, left, data.file_size_in_bytes
        return
    chosen, n_live = {number for number, *_ in file.row_groups}, 0
    by_rows = KEY_INDEX if task.candidates is not None else DELETES
    by_values = DICTIONARIES if any(file.without.values()) else BLOOM
    by_pages = PAGES if file.spans else by_rows
    alone = by_values if file.without else STATISTICS if file.excluded else by_pages
    yield READ if chosen else alone, 1, 0, 0, 0
    for number, n_rows, needed, whole in file.groups_of(columns):
        n_live += n_rows
        if number in file.spans:
            n_left, some = file.of_pages(number, columns)
            unread = None if needed is None or some is None else needed - some
            yield PAGES, 0, int(number not in chosen), n_rows - n_left, unread
            n_rows = n_left
            if unread is not None and whole is not None and needed is not None:
                needed, whole = needed - unread, whole - unread
        if number in chosen:
            yield READ, 0, 1, n_rows, data.file_size_in_bytes if needed is None else needed
            if needed is not None and whole is not None and whole != needed:
                yield COLUMNS, 0, 0, 0, whole - needed
        elif number not in file.spans:
            by_values = DICTIONARIES if file.without.get(number) else BLOOM
            step = STATISTICS if number in file.excluded else by_values if number in file.without else by_rows
            yield step, 0, 1, n_rows, whole
    if left != n_live:
        yield DELETES, 0, 0, left - n_live, 0
