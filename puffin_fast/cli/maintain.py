"""Commands that look after a table's deletes: ``report``, ``convert``, ``compact``, ``repair``, ``orphan_files``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from puffin_fast.cli import _common

if TYPE_CHECKING:
    from puffin_fast.iceberg import RewriteResult

__all__ = ["compact", "convert", "orphan_files", "repair", "report"]

branch_option = click.option("--branch", default="main", show_default=True, help="The branch to commit to.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Read and count everything, write nothing.")
job_id_option = click.option("--job-id", help="Recorded in the summary; a job done before is not done again.")
read_branch_option = click.option("--branch", help="A branch or tag, instead of the current snapshot.")
snapshot_option = click.option("--snapshot-id", type=int, help="A snapshot, instead of the current one.")


def _show(name: str, job: str, result: RewriteResult, output: str) -> None:
    if output == "json":
        _common.print_json({"table": name, "job": job, **asdict(result)})
        return
    shown = {key: value for key, value in asdict(result).items() if key != "left"}
    console = _common.console()
    console.print(_common.grid([{"what": key.replace("_", " "), job: value} for key, value in shown.items()]))
    for sentence in result.left:
        console.print(f"left: {sentence}", soft_wrap=True, markup=False)


@click.command()
@click.argument("table")
@read_branch_option
@snapshot_option
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
@_common.catalog_options
@_common.output_option
def report(
    table: str,
    branch: str | None,
    snapshot_id: int | None,
    share: float,
    picture: Path | None,
    output: str,
    **catalog: str | None,
) -> None:
    """Which files of TABLE (namespace.name) are worth rewriting, and what its deletes cost."""
    opened = _common.open_table(table, catalog)
    from puffin_fast import iceberg

    found = iceberg.report(opened, branch=branch, snapshot_id=snapshot_id, share=share)
    if picture is not None:
        found.picture(picture)
    if output == "json":
        answer = {"table": table, "totals": found.totals, "advice": found.advice}
        _common.print_json({**answer, "files": found.files.to_pylist()})
    else:
        _common.console().print(found)


@click.command()
@click.argument("table")
@click.option(
    "--only",
    type=click.Choice(["position", "equality"]),
    help="Only this kind of delete files; both by default.",
)
@branch_option
@job_id_option
@dry_run_option
@_common.catalog_options
@_common.output_option
def convert(
    table: str,
    only: str | None,
    branch: str,
    job_id: str | None,
    dry_run: bool,
    output: str,
    **catalog: str | None,
) -> None:
    """Turns position-delete and equality-delete files of TABLE into deletion vectors.

    One commit for each kind that is there. The rows stay the same.
    """
    opened = _common.open_table(table, catalog)
    from puffin_fast import iceberg

    jobs = {"position": iceberg.convert_position_deletes, "equality": iceberg.convert_equality_deletes}
    results: list[dict[str, Any]] = []
    for kind, job in jobs.items():
        if only in (None, kind):
            named = None if job_id is None else f"{job_id}-{kind}"
            result = job(opened, branch=branch, job_id=named, dry_run=dry_run)
            if output == "text":
                _show(table, f"convert {kind} deletes", result, output)
            results.append({"table": table, "job": f"convert {kind} deletes", **asdict(result)})
    if output == "json":
        _common.print_json(results)


@click.command()
@click.argument("table")
@click.option(
    "--target-file-size", type=click.IntRange(min=1), help="Bytes of vectors in a Puffin file; 64 MiB."
)
@branch_option
@job_id_option
@dry_run_option
@_common.catalog_options
@_common.output_option
def compact(
    table: str,
    target_file_size: int | None,
    branch: str,
    job_id: str | None,
    dry_run: bool,
    output: str,
    **catalog: str | None,
) -> None:
    """Packs the vectors of TABLE into few Puffin files and drops dangling ones."""
    opened = _common.open_table(table, catalog)
    from puffin_fast import iceberg

    result = iceberg.compact(
        opened, target_file_size=target_file_size, branch=branch, job_id=job_id, dry_run=dry_run
    )
    _show(table, "compact", result, output)


@click.command()
@click.argument("table")
@click.option(
    "--keep-superseded", is_flag=True, help="Leave rows that came back under a vector in the table."
)
@branch_option
@job_id_option
@dry_run_option
@_common.catalog_options
@_common.output_option
@click.pass_context
def repair(
    context: click.Context,
    /,
    table: str,
    keep_superseded: bool,
    branch: str,
    job_id: str | None,
    dry_run: bool,
    output: str,
    **catalog: str | None,
) -> None:
    """Mends what `verify` finds: several vectors of a data file merged, lost deletes found again.

    Exit code 1 when something had to be left as it is.
    """
    opened = _common.open_table(table, catalog)
    from puffin_fast import iceberg

    result = iceberg.repair(
        opened, branch=branch, superseded=not keep_superseded, job_id=job_id, dry_run=dry_run
    )
    _show(table, "repair", result, output)
    if result.left:
        context.exit(1)


@click.command()
@click.argument("table")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=3,
    show_default=True,
    help="Days: younger files may belong to a commit that is on its way.",
)
@click.option("--heads-only", is_flag=True, help="As if all snapshots but the heads were expired.")
@_common.catalog_options
@_common.output_option
def orphan_files(table: str, older_than: float, heads_only: bool, output: str, **catalog: str | None) -> None:
    """Lists files in TABLE's folder that no snapshot needs; removes none."""
    opened = _common.open_table(table, catalog)
    from puffin_fast import iceberg

    found = iceberg.orphan_files(
        opened, older_than=timedelta(days=older_than), keep=[] if heads_only else None
    )
    _common.show(found.to_pylist(), output, title=f"{table}: {found.num_rows} files")
