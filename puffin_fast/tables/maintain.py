"""All maintenance of a table in one call: convert, rewrite, compact, index, expire, clean."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from puffin_fast._api.keywords import public
from puffin_fast._concurrency.workers import workers_of
from puffin_fast._process.outcome import note_earlier
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError
from puffin_fast.tables.opening import open_table
from puffin_fast.verbs.maintenance import STEPS, MaintainResult, MaintenancePolicy
from puffin_fast.verbs.options import Options

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyspark.sql import SparkSession

    from puffin_fast.tables.opening import TableLike


@public
def maintain(
    table: TableLike,
    policy: MaintenancePolicy = MaintenancePolicy(),  # noqa: B008
    *,
    branch: str = "main",
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> MaintainResult:
    """Does all maintenance of a table.

    Converts delete files to vectors, rewrites data files, compacts vectors, keeps key indexes, expires snapshots and
    removes orphan files: the steps that the format of the table has. A Delta table has two: data files are rewritten,
    and orphan files removed. Files of its earlier versions stay until a vacuum of another library.

    Each step is a commit of its own, or several; it does nothing if there is nothing to do. A step that fails leaves
    the steps before it committed, and a repetition goes on from there. For what expiry and clean-up refuse an Iceberg
    table (properties, newer metadata that the catalog does not have), it is refused before the first step.

    Args:
        table: as `delete`.
        policy: the steps, and the thresholds from which they change something.
        branch: the branch of an Iceberg table whose files are rewritten. Snapshots of all branches expire.
        threads: as `delete`.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which does the steps that read data files
            and delete files instead of threads.
        dry_run: change nothing, and count what would be done.

    Raises:
        UnsupportedError: the policy names a step that the format does not have.
        PuffinFastError: as the functions of the steps.

    Examples:
        >>> pf.maintain(table, dry_run=True).dry_run  # Iceberg
        True
        >>> result = pf.delete(path, "id < 50")  # Delta
        >>> pf.maintain(path).data_files.rows_purged
        50
    """
    started = time.perf_counter()
    workers_of(workers, threads)
    if not isinstance(policy, MaintenancePolicy):
        raise InvalidInputError(f"policy: expected a MaintenancePolicy, found {shown_argument(policy)}")
    options = Options(verb="maintain", branch=branch, threads=threads, dry_run=dry_run)
    opened = open_table(table)
    opened.check(options)
    for step in policy.steps or ():
        opened.need(STEPS[step])
    given = STEPS if policy.steps is None else policy.steps
    steps = [step for step in given if STEPS[step] not in opened.lacks]
    found: dict[str, Any] = {}
    try:
        for name, result in opened.maintained(policy, steps, options, workers):
            found[name] = result
    except BaseException as error:
        if found and not dry_run:
            note_earlier(
                error, f"steps that were done before: {', '.join(name.replace('_', ' ') for name in found)}"
            )
        raise
    freed = sum(found[name].n_bytes for name in ("snapshots", "orphan_files") if name in found)
    return MaintainResult(
        **found, n_bytes_freed=freed, seconds=time.perf_counter() - started, dry_run=dry_run
    )
