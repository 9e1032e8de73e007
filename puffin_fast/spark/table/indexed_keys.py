"""On the driver: keys that are too many for it, looked up by executors in an index of keys.

The keys are divided by ranges of their hashes, so that each block of the index is read by few tasks. The rows that the
index names are shuffled as partial vectors. Data files that it does not cover are read whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from puffin_fast.columns.objects import Objects
from puffin_fast.errors import CorruptDataError, NotFoundError, UnsupportedError
from puffin_fast.rows.tasks import columns_of, paths_of
from puffin_fast.spark.dataframe.transforms import TASK_MEMORY, by_file
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.workers import spread
from puffin_fast.spark.table.job import Job, bins_of_numbered, task_rows
from puffin_fast.spark.worker.indexed_keys import PART, named, with_parts
from puffin_fast.spark.worker.indexed_keys import candidates as indexed_candidates
from puffin_fast.spark.worker.keys import candidate_schema, candidates
from puffin_fast.spark.worker.marked import MARKED
from puffin_fast.spark.worker.tasks import Numbered

if TYPE_CHECKING:
    from pyiceberg.types import NestedField
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.index.lookup import KeyLookup
    from puffin_fast.rows.keys.keys import KeyBounds
    from puffin_fast.rows.tasks import Task

_LOG = logging.getLogger(__name__)

Found = TypeVar("Found")


def with_or_without(work: Callable[[KeyLookup | None], Found], index: KeyLookup | None) -> Found:
    """Calls `work` with an index, and without it if a part of the index turns out to be missing or damaged."""
    if index is not None:
        try:
            return work(index)
        except (CorruptDataError, NotFoundError, UnsupportedError) as error:
            _LOG.warning("the job is repeated without the key index %s: %s", index.path, error)
    return work(None)


def named_rows(keys: DataFrame, index: KeyLookup) -> DataFrame:
    """The rows that may have a key, of the data files that an index covers: rows of `MARKED`."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    schema = StructType([*keys.schema.fields, StructField(PART, IntegerType())])
    parts = mapped(keys, over_batches(with_parts, lookup=index), schema)
    ranges = parts.repartitionByRange(PART).sortWithinPartitions(PART)
    return mapped(ranges, over_batches(named, lookup=index), MARKED)


def candidate_rows(
    session: SparkSession,
    keys: DataFrame,
    fields: list[tuple[str, NestedField]],
    job: Job,
    tasks: Sequence[Task],
    bounds: KeyBounds,
    index: KeyLookup | None,
    *,
    null_safe: bool,
    live: bool = False,
    task_memory: int = TASK_MEMORY,
) -> DataFrame:
    """The rows of data files that may have a key, as `puffin_fast.spark.worker.keys.candidates` yields them.

    Args:
        session: the session of the executors.
        fields: names and fields of the key's columns.
        job: the run of the executors.
        tasks: the data files; the rows have their numbers.
        index: if it covers data files, only the rows that it names are read of these.
        null_safe, live: as for `candidates`.
        task_memory: limit of the partial vectors that a task holds, in bytes.
    """
    options: dict[str, Any] = {
        "target": job.executor_view(),
        "bounds": bounds,
        "null_safe": null_safe,
        "live": live,
    }
    schema = candidate_schema(fields)
    every, covered = columns_of(tasks), {} if index is None else index.covered
    paths = paths_of(every)
    whole = [at for at, path in enumerate(paths) if path not in covered]
    frames = []
    if whole or index is None:
        bins = bins_of_numbered(whole, every if len(whole) == len(every) else every.take(whole))
        body = over_batches(candidates, **options)
        frames.append(mapped(spread(session, bins), body, schema))
    if index is not None:
        some = [at for at, path in enumerate(paths) if path in covered]
        named_files = [paths[at] for at in some]
        with_pages = every.take(some).replaced(candidate_pages=[covered[path] for path in named_files])
        rows, common = task_rows(session, named_files, Objects(Numbered, [some, with_pages], len(some)))
        body = over_batches(indexed_candidates, **options, memory=task_memory, common=common)
        frames.append(mapped(by_file(named_rows(keys, index).unionAll(rows)), body, schema))
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
