"""Commands that maintain the deletes of a table.

``report``, ``convert``, ``compact``, ``rewrite``, ``rewrite-manifests``, ``repair``.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from puffin_fast.cli import _options
from puffin_fast.cli._common import Answer, answers, result_grid, rows_answer, shown_warnings, tracked
from puffin_fast.cli._completed import complete_column
from puffin_fast.cli._delta_path import delta
from puffin_fast.cli._path_table import PathTable
from puffin_fast.cli._paths import name_of, verb
from puffin_fast.cli.table import case_option
from puffin_fast.errors import EngineSupportWarning, UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg import RewriteResult

_UNSET = (None, False, "main")
"""Values of the options of a commit that are not given."""


def _text(name: str, job: str, result: RewriteResult) -> list[RenderableType]:
    """The text for the result of a job on delete files."""
    text: list[RenderableType] = []
    if result.commit.repeated:
        text.append(f"{name}: {job}: nothing done: snapshot {result.commit.id} has this job id")
    elif result.commit.id is None and not (result.dry_run and _changes(result)):
        text.append(f"{name}: {job}: nothing to do")
    else:
        text.append(result_grid(job, result, "not_rewritten"))
    return [*text, *(f"not rewritten: {sentence}" for sentence in result.not_rewritten)]


def _changes(result: RewriteResult) -> bool:
    """Whether a dry run would commit something."""
    return bool(
        result.vectors_written
        or result.vectors_removed
        or result.position_delete_files_removed
        or result.equality_delete_files_removed
        or result.data_files_dropped
        or result.bounds_removed
    )


@click.command()
@answers
@_options.on_table
@_options.snapshot
@click.option(
    "--share",
    type=click.FloatRange(0, 1),
    default=0.3,
    show_default=True,
    help="Advises to rewrite data files of which at least this share of the rows is deleted.",
)
@click.option(
    "--picture",
    type=_options.LOCAL_OUTPUT,
    help="Also draws the report into a .png, .svg or .pdf file.",
)
@click.option(
    "--html",
    type=_options.LOCAL_OUTPUT,
    help="Also writes the report with its charts to an HTML file that needs no other file.",
)
def report(
    table: Table | PathTable, share: float, picture: Path | None, html: Path | None, **snapshot: Any
) -> Answer:
    """Reports what the deletes of TABLE cost and which data files are worth rewriting.

    Example: puffin-fast report shop.orders --html orders.html
    """
    found = verb(table, "report")(share=share, **snapshot)
    if picture is not None:
        found.picture(picture)
    if html is not None:
        found.to_html(html)
    answer = {"table": found.name, "totals": found.totals, "advice": found.advice}
    tables = ("files", "partitions", "snapshots", "ndv", "key_indexes")
    return Answer({**answer, **{name: getattr(found, name).to_pylist() for name in tables}}, [found])


@click.command()
@answers
@_options.on_table
@click.option(
    "--only",
    type=click.Choice(["position", "equality"]),
    help="Converts only this kind of delete files. Default: both.",
)
@click.option(
    "--to",
    "target",
    type=click.Choice(["iceberg", "delta", "paimon-v1", "paimon-v2"]),
    help="Converts the table or its vectors to this format; rewrites no data file.",
)
@click.option(
    "--name", help="Name of the new table: namespace.name for --to iceberg, a folder for --to delta."
)
@_options.threads
@_options.commit
def convert(
    table: Table | PathTable,
    only: str | None,
    target: str | None,
    name: str | None,
    job_id: str | None,
    **commit: Any,
) -> Answer:
    """Converts the position-delete and equality-delete files of TABLE to deletion vectors.

    There is one commit for each kind of delete files. The rows of the table do not change.

    With --to, it converts between formats. `--to iceberg` registers the Delta table at a path in the catalog,
    `--to delta` makes a Delta table from a table of the catalog; both tables then have the same data files.
    `--to paimon-v1` and `--to paimon-v2` rewrite the vectors of the Paimon table at a path.

    Example: puffin-fast convert shop.orders --only position --dry-run
    """
    if target is not None or isinstance(table, PathTable):
        if target is None:
            targets = {"Delta": "--to iceberg", "Paimon": "--to paimon-v1 or --to paimon-v2"}
            raise click.UsageError(
                f"{table.path}: a table of {table.format}: expected {targets[table.format]}"
                if isinstance(table, PathTable) and table.format in targets
                else "a table given by a path: expected --to"
            )
        if given := [
            name for name, value in {"only": only, "job-id": job_id, **commit}.items() if value not in _UNSET
        ]:
            raise click.UsageError(f"--to cannot be combined with --{given[0].replace('_', '-')}")
        if isinstance(table, PathTable):
            return rows_answer([tracked(table.convert)(target, name)])
        if target != "delta":
            raise UnsupportedError(
                f"{name_of(table)}: a table of Iceberg: expected --to delta, found --to {target}"
            )
        with shown_warnings(EngineSupportWarning):
            location = tracked(delta().from_iceberg)(table, name, branch=commit["branch"])
        return rows_answer([{"table": name_of(table), "to": target, "name": location}])
    if name is not None:
        raise click.UsageError("--name: expected --to beside it")
    name = ".".join(table.name())
    results, text = [], []
    for kind in ("position", "equality"):
        if only in (None, kind):
            job, named = f"convert {kind} deletes", None if job_id is None else f"{job_id}-{kind}"
            result = verb(table, f"convert_{kind}_deletes")(job_id=named, **commit)
            results.append({"table": name, "job": job, **asdict(result)})
            text += _text(name, job, result)
    return Answer(results, text)


@click.command()
@answers
@_options.on_table
@click.option(
    "--target-file-size",
    type=click.IntRange(min=1),
    help="Target size of a Puffin file in bytes. Default: the table's property, else 64 MiB.",
)
@click.option(
    "--file-path",
    multiple=True,
    help="Rewrites only Puffin files with a vector of this data file. May be given several times.",
)
@_options.threads
@_options.commit
def compact(table: Table, file_path: tuple[str, ...], **options: Any) -> Answer:
    """Packs the vectors of TABLE into few Puffin files and removes dangling vectors.

    Example: puffin-fast compact shop.orders --target-file-size 134217728
    """

    name, result = ".".join(table.name()), verb(table, "compact")(file_paths=file_path or None, **options)
    return Answer({"table": name, "job": "compact", **asdict(result)}, _text(name, "compact", result))


@click.command()
@answers
@_options.on_table
@click.option(
    "--row-filter", help="Rewrites only data files that may have rows of this filter (docs/filters.md)."
)
@click.option(
    "--min-deleted",
    type=click.FloatRange(0, 1),
    help="Rewrites data files of which at least this share of the rows is deleted. Default: 0.3.",
)
@click.option(
    "--min-file-size",
    type=click.IntRange(min=0),
    help="Joins data files of fewer bytes. Default: 0.75 of the target size; 0 joins none.",
)
@click.option(
    "--min-input-files",
    type=click.IntRange(min=2),
    help="Joins at least this number of data files to one. Default: 5.",
)
@click.option(
    "--target-file-size",
    type=click.IntRange(min=1),
    help="Target size of a data file in bytes. Default: the table's property, else 512 MiB.",
)
@click.option(
    "--max-commits",
    type=click.IntRange(min=1),
    help="Maximum number of commits; with several, those before an error stay. Default: 1.",
)
@click.option(
    "--sort-by",
    multiple=True,
    metavar="COLUMN",
    shell_complete=complete_column,
    help="Sorts the rows: 'id', 'time desc', 'name asc nulls last'; repeatable. Default: they stay as they are.",
)
@case_option
@_options.threads
@_options.commit
def rewrite(table: Table | PathTable, case_insensitive: bool, **options: Any) -> Answer:
    """Rewrites the data files of TABLE that have many deleted rows, and joins small ones.

    The rows of the table do not change. Rows that other commits delete meanwhile stay deleted.

    Example: puffin-fast rewrite shop.orders --min-deleted 0.5 --max-commits 10
    """
    name, given = name_of(table), {key: value for key, value in options.items() if value not in (None, ())}
    result = verb(table, "rewrite_data_files")(case_sensitive=not case_insensitive, **given)
    answer = {"table": name, "job": "rewrite", **asdict(result)}
    text: list[RenderableType]
    if result.commit.repeated:
        found = "the log" if result.commit.id is None else f"snapshot {result.commit.id}"
        text = [f"{name}: rewrite: nothing done: {found} has this job id"]
    elif not result.data_files:
        text = [f"{name}: rewrite: nothing to do"]
    else:
        text = [result_grid("rewrite", result)]
    return Answer(answer, text)


@click.command("rewrite-manifests")
@answers
@_options.on_table
@_options.commit
def rewrite_manifests(table: Table, **commit: Any) -> Answer:
    """Sorts the entries of TABLE's manifests by partition and path, in manifests of the target size.

    The files and rows of the table do not change.

    Example: puffin-fast rewrite-manifests shop.orders --dry-run
    """

    name, result = ".".join(table.name()), verb(table, "rewrite_manifests")(**commit)
    answer = {"table": name, "job": "rewrite-manifests", **asdict(result)}
    text: list[RenderableType]
    if result.commit.repeated:
        text = [f"{name}: rewrite-manifests: nothing done: snapshot {result.commit.id} has this job id"]
    elif not result.manifests_written:
        text = [f"{name}: rewrite-manifests: nothing to do"]
    else:
        text = [result_grid("rewrite-manifests", result)]
    return Answer(answer, text)


@click.command()
@answers
@_options.on_table
@click.option(
    "--keep-superseded",
    is_flag=True,
    help="Does not restore deletes that are only in superseded position-delete files.",
)
@_options.threads
@_options.commit
def repair(table: Table, keep_superseded: bool, **commit: Any) -> Answer:
    """Repairs what `verify` reports: merges vectors of a data file, restores lost deletes, removes wrong bounds.

    The exit code is 1 if something could not be repaired.

    Example: puffin-fast repair shop.orders --dry-run
    """

    name, result = ".".join(table.name()), verb(table, "repair")(superseded=not keep_superseded, **commit)
    answer = {"table": name, "job": "repair", **asdict(result)}
    return Answer(answer, _text(name, "repair", result), failed=bool(result.not_rewritten))
