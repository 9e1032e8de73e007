"""The common part of all commands: errors as one line, results as text or JSON.

A command returns an `Answer`, which `answers` prints. All other output, of this package or of others, goes to standard
error, so that standard output has only the result.

Exit codes: 0 success, 1 an error of this package or a failed check, 2 wrong usage, 130 interrupted. A command that has
changed something and cannot print its result says so and ends with 0, so that it is not repeated for the result.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import asdict, dataclass
from functools import wraps
from traceback import walk_tb
from typing import Any, TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from puffin_fast._api.keywords import function_for, right_name
from puffin_fast._display.grid import Column, OneLineTable
from puffin_fast._process.outcome import outcome_of
from puffin_fast._text import JOINERS, printable
from puffin_fast.cli._values import json_value, shown_value
from puffin_fast.errors import PuffinFastError

INTERRUPTED = 130

COMMANDS = {
    "changes need its catalog: catalog.load_table, or catalog.register_table for a table that no catalog has": (
        "changes need the name of the table in its catalog, namespace.name"
    ),
    "catalog.create_namespace creates it": "`puffin-fast create` with --create-namespace creates it",
    "puffin_fast.delta.enable(table)": "`puffin-fast upgrade`",
    "puffin_fast.delta.disable(table)": "`puffin-fast disable`",
    "puffin_fast.iceberg.upgrade(table)": "`puffin-fast upgrade`",
    "from_snapshot_id_exclusive": "--from-snapshot-id",
    "to_snapshot_id_inclusive": "--to-snapshot-id",
    "from_timestamp_exclusive": "--from-timestamp",
    "to_timestamp_inclusive": "--to-timestamp",
    "join_cols:": "--join-col:",
    "net=True": "--net",
}
"""What the messages of the package advise to call or to pass, and the commands and options for it."""

_BEGUN, _DONE = "puffin_fast.begun", "puffin_fast.done"
"""Numbers of a command in click's `Context.meta`: of its changes that began, and of those that ended."""

WIDE = 1 << 16
"""Width of the output if it is not a terminal: rows are never wrapped."""


class ErrorReportingGroup(click.Group):
    """The group of all commands: prints an error of the package as one line on standard error."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands with the whole first sentences of their help; click cuts these at the line's end."""
        rows = [
            (name, " ".join((command.help or "").split("\n\n")[0].split()))
            for name, command in self.commands.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = (function_for(args[0].replace("-", "_")) or "").replace("_data_files", "").replace("_", "-")
        if args[0] not in self.commands and name in self.commands:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {name!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            options = (
                {str(option.name): option.opts[0] for option in error.ctx.command.params} if error.ctx else {}
            )
            right = right_name(error.option_name.lstrip("-").replace("-", "_"), options)
            if right is None:
                # without click's suggestions, which share some letters only
                raise click.NoSuchOption(error.option_name, ctx=error.ctx) from None
            message = f"No such option {error.option_name!r}. Did you mean {options[right]!r}?"
            raise click.UsageError(message, ctx=error.ctx) from None
        except PuffinFastError as error:
            notes = getattr(error, "__notes__", ())  # such as earlier parts of a job
            message = "; ".join([str(error), *notes])
        except OSError as error:
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        except Exception as error:
            if (source := _configuration(error)) is None:
                raise
            message = f"{source}: PyIceberg cannot read its configuration: {error}"
        except KeyboardInterrupt:
            outcome = "" if ctx.meta.get(_BEGUN) else ": nothing was changed"
            click.echo(f"{ctx.info_name}: interrupted{outcome}", err=True)
            return ctx.exit(INTERRUPTED)
        message = _as_command(message)
        click.echo(f"{ctx.info_name}: error: {printable(' '.join(message.split()))}", err=True)
        return ctx.exit(1)


_LACKING = re.compile(
    r"(tables of \w+ have no )(as_of|branch|job_id|on_conflict|snapshot_id|snapshot_properties|tag|threads)\b"
)
"""An option that a format does not have."""


def _as_command(message: str) -> str:
    """A message of the package with commands and options in place of functions and arguments."""
    for function, command in COMMANDS.items():
        message = message.replace(function, command)
    return _LACKING.sub(lambda found: f"{found[1]}--{found[2].replace('_', '-')}", message)


def _configuration(error: Exception) -> str | None:
    """The file of PyIceberg's configuration that caused an error, or ``environment``; None for other errors.

    PyIceberg reads its configuration when it is imported, and raises what its YAML parser does.
    """
    source = None
    for frame, _ in walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") == "pyiceberg.utils.config":
            source = str(frame.f_locals.get("path", source or "environment"))
    return source


@dataclass(frozen=True)
class Answer:
    """The result of a command.

    Attributes:
        json: the document that ``--output json`` prints.
        text: what is printed otherwise, in order: sentences, or objects that rich renders.
        failed: whether the exit code is 1.
        stream: writes what is printed instead of these; it gets the function that writes bytes to standard output.
    """

    json: object
    text: Sequence[RenderableType]
    failed: bool = False
    stream: Callable[[Callable[[Any], object]], object] | None = None


output_option = click.option(
    "--output", type=click.Choice(["text", "json", "csv"]), help="Format of the output. Default: text."
)


wide_option = click.option("--wide", is_flag=True, help="Cuts no cell of a table on a terminal.")


def answers(command: Callable[..., Answer]) -> Callable[..., None]:
    """Adds ``--output text|json|csv`` to a command, and prints the `Answer` that it returns."""

    @output_option
    @wide_option
    @wraps(command)
    def run(
        *arguments: Any, output: str | None, wide: bool, **options: Any
    ) -> None:  # `chosen_output` reads it
        context = click.get_current_context()
        output = chosen_output()
        try:
            with redirect_stdout(sys.stderr):
                answer = command(*arguments, **options)
        except KeyboardInterrupt as interrupt:
            outcome = _outcome(context, outcome_of(interrupt))
            click.echo(f"{context.find_root().info_name}: interrupted: {outcome}", err=True)
            context.exit(INTERRUPTED)
        with printing() as stdout:
            if stdout is None:
                pass
            elif answer.stream is not None:
                answer.stream(stdout.buffer.write)
            else:
                stdout.write(_shown(answer, output, stdout, wide=wide))
        if answer.failed:
            context.exit(1)

    return run


def chosen_output() -> str | None:
    """The option --output of the current command, else that of the group."""
    context = click.get_current_context()
    chosen: str | None = context.params.get("output") or context.find_root().params.get("output")
    return chosen


def _shown(answer: Answer, output: str | None, stdout: TextIO, *, wide: bool) -> str:
    if output == "json":
        return _json(answer, stdout)
    return _csv(answer) if output == "csv" else _text(answer, stdout, wide=wide)


def _csv(answer: Answer) -> str:
    """The rows of a document with a header; values that CSV does not have are JSON.

    The command is done, so that a document without rows must not be an error.
    """
    document: Any = json_value(answer.json)
    rows = document if isinstance(document, list) else [document]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        nested = {
            key: json.dumps(value, ensure_ascii=False)
            for key, value in row.items()
            if isinstance(value, dict | list | bool)
        }
        writer.writerow({**row, **nested})
    return text.getvalue()


@contextmanager
def shown_warnings(*kinds: type[Warning]) -> Iterator[None]:
    """Prints the warnings of a block as lines of the command, without places in the code."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in kinds:
            warnings.simplefilter("always", kind)
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"puffin-fast: warning: {printable(_as_command(message))}", err=True)


def tracked(change: Callable[..., Any]) -> Callable[..., Any]:
    """A function that changes a table; an interrupt of the command says how many of these began and ended."""

    @wraps(change)
    def run(*arguments: Any, **options: Any) -> Any:
        state = click.get_current_context().meta
        state[_BEGUN] = state.get(_BEGUN, 0) + 1
        result = change(*arguments, **options)
        state[_DONE] = state.get(_DONE, 0) + 1
        return result

    return run


def _outcome(context: click.Context, noted: str | None) -> str:
    """What an interrupted command changed.

    Args:
        context: of the command.
        noted: what the function that was interrupted says.
    """
    begun, done = (context.meta.get(name, 0) for name in (_BEGUN, _DONE))
    if not begun or not _changes(context):
        return noted or "nothing was changed"
    if begun == done:
        return "the change is done; only its result is not printed"
    if noted is None:
        return "it is unknown whether the change happened: look at the table before you repeat the command"
    return f"{noted}; the job before it is done" if done else noted


def _changes(context: click.Context) -> bool:
    """Whether a command changes a table: it has the option ``--dry-run``, which is not given, or it is `create`."""
    given = context.params
    return context.info_name == "create" or (
        given.get("dry_run") is False and given.get("collect") is not False
    )


def _json(answer: Answer, stdout: TextIO) -> str:
    """The document of an answer. Control characters, and those that the output does not have, are JSON's escapes."""
    plain = json_value(answer.json)
    text = json.dumps(plain, indent=2, ensure_ascii=False)
    try:
        text.encode(stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(plain, indent=2) + "\n"
    shown = (c if c.isprintable() or c in JOINERS or c == "\n" else json.dumps(c)[1:-1] for c in text)
    return "".join(shown) + "\n"


def _text(answer: Answer, stdout: TextIO, *, wide: bool) -> str:
    """What is printed. It is rendered first: the library for it ends the process if a pipe is closed."""
    is_narrow = stdout.isatty() and not wide  # sentences are wrapped between words
    width = (
        shutil.get_terminal_size().columns if is_narrow else WIDE
    )  # rich takes 80 for a terminal that is "dumb"
    console = Console(width=width, height=25)
    with console.capture() as captured:
        for part in answer.text:
            console.print(Text(printable(part)) if isinstance(part, str) else part, soft_wrap=not is_narrow)
    return captured.get()


@contextmanager
def printing() -> Iterator[TextIO | None]:
    """Yields standard output for the result of the current command; None if the caller closed it.

    Characters that it cannot represent are escaped.

    Raises:
        PuffinFastError: the result cannot be printed, and the command has changed nothing.
    """
    context, stdout = click.get_current_context(), sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(errors="backslashreplace")
    try:
        yield stdout
        if stdout is not None:
            stdout.flush()
    except OSError as error:
        with suppress(OSError):  # what is left in the buffer must not fail again when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        reason = f"standard output: {error.strerror}"
        if _changes(context):
            done = f"the command is done; its result could not be printed: {reason}"
            click.echo(f"{context.find_root().info_name}: {done}", err=True)
        elif error.errno == errno.EPIPE:  # the reader has ended, such as `head`
            context.exit(1)
        else:
            raise PuffinFastError(reason) from error


def rows_answer(
    rows: Iterable[Mapping[str, object]],
    *,
    title: str | None = None,
    nothing: str = "",
    null: str = "",
    failed: bool = False,
) -> Answer:
    """Returns rows as a table, or as a JSON array.

    Args:
        rows: all with the same keys.
        title: above the table.
        nothing: the sentence that is printed if there are no rows.
        null: how None is printed.
        failed: as in `Answer`.
    """
    rows = list(rows)
    shown = grid(rows, title=title, null=null, one_line=True) if rows else nothing
    return Answer(rows, [shown], failed)


def grid(
    rows: Iterable[Mapping[str, object]],
    *,
    title: str | None = None,
    null: str = "",
    one_line: bool = False,
    types: Mapping[str, str] | None = None,
    key: str | None = None,
) -> RenderableType:
    """Returns a table with the keys of the first row as columns; numbers are right-aligned, a `Text` is not changed.

    Args:
        rows: all with the same keys.
        title: above the table.
        null: how None is printed.
        one_line: whether a row has one line on a terminal: what does not fit is cut, paths in the middle.
        types: the types of the columns, which are shown below their names.
        key: the column that is the last one to be left out for lack of room; by default the first one.
    """
    return _Rows(list(rows), title, null, one_line, types or {}, key)


@dataclass(frozen=True)
class _Rows:
    """The arguments of `grid`, from which a table is made when the width is known."""

    rows: Sequence[Mapping[str, object]]
    title: str | None
    null: str
    one_line: bool
    types: Mapping[str, str]
    key: str | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        columns = [self._column(name) for name in (self.rows[0] if self.rows else ())]
        title = None if self.title is None else printable(self.title)
        if self.one_line:
            yield OneLineTable(columns, title, " (--wide shows them)")
            return
        table = Grid(title=None if title is None else Text(title), title_justify="left", title_style="bold")
        for column in columns:
            table.add_column(Text("\n".join(column.head)), justify=column.justify, overflow="fold")
        for row in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*row)
        yield table

    def _column(self, name: str) -> Column:
        values = [row[name] for row in self.rows]
        head = [printable(text) for text in (name, self.types.get(name)) if text is not None]
        is_number = all(isinstance(value, int | float | None) for value in values)
        return Column(head, [_cell(value, self.null) for value in values], is_number, name == self.key)


def _cell(value: object, null: str) -> Text:
    if isinstance(value, Text):
        return value
    return Text(null, style="dim") if value is None else Text(shown_value(value))


def without_zeros(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the columns that are empty, 0 or None in all of them; the first column stays."""
    names = list(rows[0]) if rows else []
    used = [name for name in names if name == names[0] or any(row[name] for row in rows)]
    return [{name: row[name] for name in used} for row in rows]


def relative_to(root: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with paths in a folder relative to it."""
    folder = f"{root.rstrip('/')}/"
    return [
        {key: value.removeprefix(folder) if isinstance(value, str) else value for key, value in row.items()}
        for row in rows
    ]


def percent(share: float | None) -> Text | None:
    """A share from 0 to 1 as a percentage."""
    return None if share is None else Text(f"{share:.1%}", justify="right")


def with_commit(counts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a result, and those of its commit."""
    shown = {name: value for name, value in counts.items() if name != "commit"}
    commit = counts.get("commit", {})
    shown |= {f"commit {name}": value for name, value in commit.items() if name != "seconds"}
    return shown | {"seconds": round({**commit, **counts}["seconds"], 3)}


def result_grid(heading: str, result: Any, *without: str, **instead: Any) -> RenderableType:
    """The fields of a result, one in each line; some are left out, and some have other values."""
    shown = {**with_commit(asdict(result)), **instead}
    title = DRY_RUN if shown.get("dry_run") else None
    without = (*without, "dry_run")
    return fields_grid(
        heading, {key: value for key, value in shown.items() if key not in without}, title=title
    )


DRY_RUN = "dry run: nothing was written"


def fields_grid(heading: str, values: Mapping[str, object], *, title: str | None = None) -> RenderableType:
    """Returns a table with one line for each value, for narrow terminals. Zero and empty values are left out."""
    rows = (
        {"what": key.replace("_", " "), heading: value}
        for key, value in values.items()
        if isinstance(value, float) or value not in (0, None, "", (), [])
    )
    return grid(rows, title=title)
