"""Commands that remove what a table does not need any more.

``orphan_files``, ``remove_orphan_files``, ``expire_snapshots``, and ``maintain``, which runs all maintenance.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from puffin_fast._text import counted
from puffin_fast.cli import _options
from puffin_fast.cli._common import DRY_RUN, Answer, answers, grid, result_grid, rows_answer
from puffin_fast.cli._path_table import PathTable
from puffin_fast.cli._paths import name_of, verb
from puffin_fast.errors import InvalidInputError

if TYPE_CHECKING:
    from pyiceberg.table import Table

MAX_DAYS = 100_000
"""Greatest age, as in a policy: it reaches back to before Unix."""

_DAY = timedelta(days=1)


class _Days(click.FloatRange):
    """A number of days, converted to a `timedelta`."""

    def __init__(self) -> None:
        super().__init__(min=0, max=MAX_DAYS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        days = super().convert(value, param, ctx)
        if math.isnan(days):
            self.fail("expected a number of days, found nan", param, ctx)
        return timedelta(days=days)


_age_of_files = click.option(
    "--older-than",
    type=_Days(),
    default=3,
    show_default=True,
    help="Only files older than this number of days; younger files may belong to a running commit.",
)


@click.command()
@answers
@_options.on_table
@_age_of_files
@click.option(
    "--heads-only",
    is_flag=True,
    help="Also lists files that only older snapshots need: counts all but the heads of branches and tags as expired.",
)
@_options.threads
def orphan_files(
    table: Table | PathTable, older_than: timedelta, heads_only: bool, threads: int | None
) -> Answer:
    """Lists the files in the folder of TABLE that no snapshot needs; removes none.

    Example: puffin-fast orphan-files shop.orders --older-than 7
    """
    name = name_of(table)
    found = verb(table, "orphan_files")(
        older_than=older_than, keep=[] if heads_only else None, threads=threads
    )
    nothing = f"{name}: no orphan files older than {older_than / _DAY:g} days"
    return rows_answer(found.to_pylist(), title=f"{name}: {counted(found.num_rows, 'file')}", nothing=nothing)


@click.command()
@answers
@_options.on_table
@click.option(
    "--older-than",
    type=_Days(),
    help="Expires snapshots that are at least this number of days old. Default: the table's property, else 5.",
)
@click.option(
    "--retain-last",
    type=click.IntRange(min=1),
    help="Number of snapshots that each branch keeps. Default: the table's property, else 1.",
)
@click.option(
    "--snapshot-id", "snapshot_ids", type=int, multiple=True, help="Expires this snapshot; may be repeated."
)
@_options.threads
@click.option("--dry-run", is_flag=True, help="Changes nothing; shows what would be removed.")
def expire_snapshots(
    table: Table, older_than: timedelta | None, snapshot_ids: tuple[int, ...], **options: Any
) -> Answer:
    """Removes old snapshots of TABLE, and the files that only they need.

    Example: puffin-fast expire-snapshots shop.orders --older-than 7 --dry-run
    """

    name = ".".join(table.name())
    result = verb(table, "expire_snapshots")(
        older_than=older_than,
        snapshot_ids=snapshot_ids or None,
        **options,
    )
    answer = {"table": name, "job": "expire snapshots", **asdict(result)}
    text: list[RenderableType]
    if not result.snapshot_ids and not result.references:
        text = [f"{name}: expire snapshots: nothing to do"]
    else:
        names, done = ", ".join(result.references), "would expire" if result.dry_run else "expired"
        text = [
            result_grid(
                done,
                result,
                "not_removed",
                snapshot_ids=len(result.snapshot_ids),
                references=names,
            )
        ]
        if result.dry_run and result.snapshot_ids:
            text.append(grid([{"would expire": snapshot_id} for snapshot_id in result.snapshot_ids]))
    text += [f"not removed: {sentence}" for sentence in result.not_removed]
    return Answer(answer, text, failed=bool(result.not_removed))


@click.command()
@answers
@_options.on_table
@_age_of_files
@_options.threads
@click.option(
    "--dry-run/--no-dry-run", default=True, show_default=True, help="Lists the files and removes none."
)
def remove_orphan_files(
    table: Table | PathTable, older_than: timedelta, threads: int | None, dry_run: bool
) -> Answer:
    """Removes the files in the folder of TABLE that no snapshot needs, with --no-dry-run.

    Example: puffin-fast remove-orphan-files shop.orders --no-dry-run
    """
    name = name_of(table)
    result = verb(table, "remove_orphan_files")(older_than=older_than, threads=threads, dry_run=dry_run)
    answer = {**asdict(result), "table": name, "files": result.files.to_pylist()}
    n_files, did = result.files.num_rows, "to remove" if dry_run else "removed"
    if not n_files:
        did = f"to remove: no orphan files older than {older_than / _DAY:g} days"
    text: list[RenderableType] = [f"{name}: {counted(n_files, 'file')} ({result.n_bytes:,} bytes) {did}"]
    if n_files and dry_run:
        text.append("dry run: nothing was removed; --no-dry-run removes them")
    if n_files:
        text.append(grid(result.files.to_pylist(), one_line=True))
    text += [f"not removed: {sentence}" for sentence in result.not_removed]
    return Answer(answer, text, failed=bool(result.not_removed))


@click.command()
@answers
@_options.on_table
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with values of a MaintenancePolicy, ages in days. Default: its defaults.",
)
@click.option("--branch", default="main", show_default=True, help="The branch whose files are rewritten.")
@_options.threads
@click.option("--dry-run", is_flag=True, help="Changes nothing; shows the plan and what it would save.")
def maintain(
    table: Table | PathTable, policy: Path | None, branch: str, threads: int | None, dry_run: bool
) -> Answer:
    """Does all maintenance of TABLE.

    Converts delete files to vectors, rewrites data files, compacts vectors, keeps key indexes, expires snapshots and
    removes orphan files.
    Of a Delta table, rewrites data files and removes orphan files.

    Example: puffin-fast maintain shop.orders --policy nightly.toml --dry-run
    """
    values: dict[str, Any] = {}
    if policy is not None:
        try:
            values = tomllib.loads(policy.read_bytes().decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{policy}: expected TOML: {error}") from error
    job = verb(table, "maintain")
    result = job(_policy(policy, values), branch=branch, threads=threads, dry_run=dry_run)
    answer = {"table": name_of(table), **asdict(result)}
    if result.orphan_files is not None:
        answer["orphan_files"]["files"] = result.orphan_files.files.to_pylist()
    steps = {field.name.replace("_", " "): getattr(result, field.name) for field in fields(result)}
    rows = [
        {"step": step, "result": _sentence(done)}
        for step, results in steps.items()
        for done in (results if isinstance(results, tuple) else (results,))
        if is_dataclass(done)
    ]
    freed = "would be freed" if dry_run else "freed"
    return Answer(
        answer,
        [
            grid(rows, title=DRY_RUN if dry_run else None),
            f"{answer['table']}: {result.n_bytes_freed:,} bytes {freed}",
        ],
    )


def _policy(path: Path | None, values: dict[str, Any]) -> Any:
    from puffin_fast.verbs.maintenance import MaintenancePolicy

    try:
        return MaintenancePolicy.of(values)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from error


def _sentence(result: Any) -> str:
    """The counts of a result that are not zero."""
    found = {field.name: getattr(result, field.name) for field in fields(result)}
    counts = {
        name: len(value) if name in ("snapshot_ids", "references", "files") else value
        for name, value in found.items()
    }
    shown = [
        f"{value} {name.replace('_', ' ').removesuffix(' ids')}"
        for name, value in counts.items()
        if type(value) is int and value and name != "snapshot_id"
    ]
    return ", ".join(shown) or "nothing to do"
