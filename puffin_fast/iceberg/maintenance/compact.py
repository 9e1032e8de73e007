"""Compacts the deletion vectors of many Puffin files into few files; the vectors do not change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._api.arguments import check_integer, check_texts
from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._concurrency.threads import on_threads
from puffin_fast._concurrency.workers import OPEN_BYTES, Threads, workers_of
from puffin_fast._io.run_folder import run_name
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.compat.table_properties import delete_file_size, vectors_per_file
from puffin_fast.iceberg.delete_files.deletion_vectors import write_where_read
from puffin_fast.iceberg.delete_files.writer import ChangeTerms
from puffin_fast.iceberg.maintenance.rewrite import REPLACE, Rewritten, rewrite
from puffin_fast.puffin import PuffinReader
from puffin_fast.puffin.vectors import read_ranges
from puffin_fast.rows.deletes.loader import within
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.verbs.maintenance import RewriteResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable
    from puffin_fast.iceberg.plan.delete_index import FileTask
    from puffin_fast.iceberg.plan.inventory import DeleteInventory

ONE_FILE = 1 << 62
"""No limit: a worker writes one file, whose size was determined before."""

FULL = 0.75
"""A file is not rewritten if its live vectors fill this share of the target size and of the file's blobs."""


def compact(
    table: Table,
    *,
    target_file_size: int | None = None,
    file_paths: Sequence[str] | None = None,
    branch: str = MAIN_BRANCH,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """Rewrites the vectors of small and half-empty Puffin files, and removes dangling vectors, in one commit.

    Each rewritten vector is read and checked, and keeps its data sequence number. A single such file is
    rewritten only if it has vectors that are no longer referenced, more than 100 vectors, or no Puffin footer, which
    other readers need. (With table property ``puffin-fast.carry-shared-vectors`` set to ``false``: if a quarter of its
    bytes are no longer referenced, or it has no footer.) Files without a referenced vector stay in storage until no
    snapshot needs them: see `orphan_files`.

    Args:
        table: a PyIceberg table of format version 3. It is refreshed first, and has the new metadata
            afterwards.
        target_file_size: target size of a Puffin file in bytes; by default the table's property
            ``write.delete.target-file-size-bytes`` (64 MiB).
        file_paths: data files, as the manifests have their paths. Only Puffin files that have a vector of one of
            them are rewritten, whole: with the vectors of other data files that they have. The entries of all
            other files are not made, and dangling vectors elsewhere stay. By default all Puffin files.
        branch, job_id, snapshot_properties, dry_run: as `convert_position_deletes`.
        threads: number of Puffin files read at a time; the number of processors by default.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which reads and writes instead of
            threads. Each new Puffin file is written by one worker, which holds its vectors.

    Raises:
        InvalidInputError: the target size is below 1.
        CorruptDataError: a vector does not agree with its manifest entry, or a data file has two (see
            `repair`).
        NotFoundError: the branch or a Puffin file does not exist, or one of `file_paths` is no data file of it.
        UnsupportedError, ConflictError, CommitUnknownError: as `convert_position_deletes`.

    Examples:
        >>> result = pf.iceberg.delete(table, "id < 10")
        >>> result = pf.iceberg.append(table, pa.table({"id": [100, 101], "customer": [1, 1], "price": [9.5, 9.5]}))
        >>> result = pf.iceberg.delete(table, "id = 100")
        >>> result = pf.iceberg.compact(table)
        >>> result.puffin_files_written, result.puffin_files_removed
        (1, 2)
    """
    who = workers_of(workers, threads)
    check_integer("target_file_size", target_file_size, least=1)
    only = None if file_paths is None else check_texts("file_paths", file_paths)
    request = Request(verb="compact", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties)
    run = run_name(job_id, "compact")

    def work(table: WorkingTable, inventory: DeleteInventory) -> Rewritten:
        limit = delete_file_size(table.properties) if target_file_size is None else target_file_size
        chosen, terms = select_vectors(table, inventory, limit, threads)
        tasks = [*chain.from_iterable(chosen)]
        is_here = isinstance(who, Threads)
        bins = [chosen] if is_here else _new_files(tasks, limit, table)
        outcomes, _ = write_where_read(
            who,
            table,
            partial(_vectors_of, table.io),
            bins,
            lambda some: sum(map(n_bytes_of, some)) + OPEN_BYTES,
            tasks,
            "reading vectors",
            run,
            only_new=False,
            dry_run=dry_run,
            limit=limit if is_here else ONE_FILE,
        )
        return Rewritten.of(table, outcomes, terms)

    return rewrite(table, work, request, dry_run=dry_run, file_paths=only)


def _vectors_of(
    io: FileIO, files: Sequence[Sequence[FileTask]]
) -> Callable[[Sequence[FileTask]], Iterator[NewDeletes]]:
    return partial(read_puffin_vectors, io)


def _new_files(tasks: Iterable[FileTask], limit: int, table: Table) -> list[list[list[FileTask]]]:
    """Groups vectors by new Puffin file, each with one partition spec; vectors of an old file are adjacent."""
    most = vectors_per_file(table.properties)
    groups = split_by_size(tasks, limit, n_bytes_of, kind=lambda task: task.data.spec_id, most=most)
    return [[list(some) for _, some in groupby(group, key=_puffin_file)] for group in groups]


def _puffin_file(task: FileTask) -> str:
    return "" if task.vector is None else task.vector.file_path


def read_puffin_vectors(io: FileIO, tasks: Sequence[FileTask]) -> Iterator[NewDeletes]:
    """Reads and checks the vectors of data files; all of them are in one Puffin file."""
    vectors = [task.vector for task in tasks if task.vector is not None]
    ranges = [(v.content_offset or 0, v.content_size_in_bytes or 0, v.record_count) for v in vectors]
    for at, bitmap in read_ranges(vectors[0].file_path, ranges, filesystem=io):
        yield NewDeletes(tasks[at], within(bitmap, tasks[at].data, vectors[at]), 0)


def select_vectors(
    table: Table, inventory: DeleteInventory, limit: int, threads: int | None
) -> tuple[list[list[FileTask]], ChangeTerms]:
    """Selects the vectors to rewrite: of small Puffin files, if fewer files suffice, and of half-empty ones.

    Args:
        table: its FileIO reads footers.
        inventory: the inventory of its branch.
        limit: target size of a Puffin file in bytes.
        threads: number of footers read at a time.

    Returns:
        The data files, grouped by Puffin file and partition spec and ordered by spec, and the terms of the
        changes.
    """
    groups: dict[tuple[int, str], list[FileTask]] = defaultdict(list)  # by spec and Puffin file
    live, counts, most = Counter[str](), Counter[str](), vectors_per_file(table.properties)
    for file in inventory.files:
        if file.vectors:
            path = file.vectors[0].file_path
            groups[file.data.spec_id, path].append(file.task)
            live[path] += n_bytes_of(file.task)
            counts[path] += 1
    small = {
        path
        for path, n_bytes in live.items()
        if n_bytes < FULL * limit and (most is None or counts[path] < FULL * most)
    }
    moved_tasks = chain.from_iterable(
        groups[group] for group in sorted(groups, key=itemgetter(0)) if group[1] in small
    )
    n_new = sum(
        1 for _ in split_by_size(moved_tasks, limit, n_bytes_of, kind=lambda t: t.data.spec_id, most=most)
    )
    if len(small) <= n_new:
        small = set()
    rest = sorted(live.keys() - small)

    def is_rewritten(path: str) -> bool:
        try:
            with PuffinReader(path, filesystem=table.io) as reader:
                if most is not None and (counts[path] < len(reader.blobs) or counts[path] > most):
                    return True
                return live[path] < FULL * sum(blob.length for blob in reader.blobs)
        except (CorruptDataError, UnsupportedError):
            return True  # no Puffin file: other readers need the footer to find its vectors

    chosen = small | {
        path for path, waste in zip(rest, on_threads(is_rewritten, rest, threads), strict=True) if waste
    }
    dangling = tuple(entry for entry in inventory.dangling if entry.is_vector)
    in_order = sorted(groups, key=itemgetter(0))
    terms = ChangeTerms(also_removed=dangling, keeps_sequence_numbers=True, operation=REPLACE)
    return [groups[spec_id, path] for spec_id, path in in_order if path in chosen], terms


def n_bytes_of(task: FileTask) -> int:
    """The size of a data file's deletion vector in bytes."""
    return 0 if task.vector is None else task.vector.content_size_in_bytes or 0
