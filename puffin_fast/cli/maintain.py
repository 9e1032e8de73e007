"""Commands that look after a table's deletes: ``report``, ``convert``, ``compact``, ``repair``, ``orphan_files``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from puffin_fast.cli import _options
from puffin_fast.cli._common import Answer, answers, grid, rows_answer

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg import RewriteResult

__all__ = ["compact", "convert", "orphan_files", "repair", "report"]


def _text(name: str, job: str, result: RewriteResult) -> list[RenderableType]:
    """What a job on delete files did."""
    text: list[RenderableType] = []
    if result.repeated:
        text.append(f"{name}: {job}: nothing done: snapshot {result.snapshot_id} is of this job")
    elif result.snapshot_id is None and not (result.dry_run and _changes(result)):
        text.append(f"{name}: {job}: nothing to do")
    else:
        shown = {**asdict(result), "seconds": round(result.seconds, 3)}
        del shown["left"]
        text.append(grid({"what": key.replace("_", " "), job: value} for key, value in shown.items()))
    return [*text, *(f"left: {sentence}" for sentence in result.left)]


def _changes(result: RewriteResult) -> bool:
    """Whether a dry run would commit something."""
    return bool(
        result.vectors_written
        or result.vectors_removed
        or result.position_delete_files_removed
        or result.equality_delete_files_removed
        or result.data_files_dropped
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
    help="Deleted share of a data file from which on rewriting it is advised.",
)
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw it, too: .png, .svg or .pdf."
)
def report(table: Table, share: float, picture: Path | None, **snapshot: Any) -> Answer:
    """Which files of TABLE (namespace.name) are worth rewriting, and what its deletes cost."""
    from puffin_fast import iceberg

    found = iceberg.report(table, share=share, **snapshot)
    if picture is not None:
        found.picture(picture)
    answer = {"table": found.name, "totals": found.totals, "advice": found.advice}
    return Answer({**answer, "files": found.files.to_pylist()}, [found])


@click.command()
@answers
@_options.on_table
@click.option(
    "--only",
    type=click.Choice(["position", "equality"]),
    help="Only this kind of delete files; both by default.",
)
@_options.commit
def convert(table: Table, only: str | None, job_id: str | None, **commit: Any) -> Answer:
    """Turns position-delete and equality-delete files of TABLE into deletion vectors.

    One commit for each kind that is there. The rows stay the same.
    """
    from puffin_fast import iceberg

    name = ".".join(table.name())
    jobs = {"position": iceberg.convert_position_deletes, "equality": iceberg.convert_equality_deletes}
    results, text = [], []
    for kind, convert_deletes in jobs.items():
        if only in (None, kind):
            job, named = f"convert {kind} deletes", None if job_id is None else f"{job_id}-{kind}"
            result = convert_deletes(table, job_id=named, **commit)
            results.append({"table": name, "job": job, **asdict(result)})
            text += _text(name, job, result)
    return Answer(results, text)


@click.command()
@answers
@_options.on_table
@click.option(
    "--target-file-size", type=click.IntRange(min=1), help="Bytes of vectors in a Puffin file; 64 MiB."
)
@_options.commit
def compact(table: Table, **options: Any) -> Answer:
    """Packs the vectors of TABLE into few Puffin files and drops dangling ones."""
    from puffin_fast import iceberg

    name, result = ".".join(table.name()), iceberg.compact(table, **options)
    return Answer({"table": name, "job": "compact", **asdict(result)}, _text(name, "compact", result))


@click.command()
@answers
@_options.on_table
@click.option(
    "--keep-superseded", is_flag=True, help="Leave rows that came back under a vector in the table."
)
@_options.commit
def repair(table: Table, keep_superseded: bool, **commit: Any) -> Answer:
    """Mends what `verify` finds: several vectors of a data file merged, lost deletes found again.

    Exit code 1 when something had to be left as it is.
    """
    from puffin_fast import iceberg

    name, result = ".".join(table.name()), iceberg.repair(table, superseded=not keep_superseded, **commit)
    answer = {"table": name, "job": "repair", **asdict(result)}
    return Answer(answer, _text(name, "repair", result), failed=bool(result.left))


@click.command()
@answers
@_options.on_table
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=3,
    show_default=True,
    help="Days: younger files may belong to a commit that is on its way.",
)
@click.option("--heads-only", is_flag=True, help="As if all snapshots but the heads were expired.")
def orphan_files(table: Table, older_than: float, heads_only: bool) -> Answer:
    """Lists files in TABLE's folder that no snapshot needs; removes none."""
    from puffin_fast import iceberg

    name = ".".join(table.name())
    found = iceberg.orphan_files(
        table, older_than=timedelta(days=older_than), keep=[] if heads_only else None
    )
    nothing = f"{name}: no orphan files older than {older_than:g} days"
    return rows_answer(found.to_pylist(), title=f"{name}: {found.num_rows} files", nothing=nothing)
