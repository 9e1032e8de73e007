"""Parquet files that another program wrote, added to a table as they are: PyIceberg's `add_files` on version 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.compat.parquet_writer import statistics_of
from puffin_fast.iceberg.dml.attempt import IcebergAttempt
from puffin_fast.iceberg.dml.data_files import file_metrics
from puffin_fast.iceberg.manifest import ADDED, DATA, ManifestEntry, check_transforms
from puffin_fast.rows.files.files import reading
from puffin_fast.verbs.attempt import Attempt
from puffin_fast.verbs.counts import Counts


@dataclass(frozen=True, eq=False)
class AddFiles:
    """Adds Parquet files as data files. They are not copied, and never removed if nothing is committed.

    Attributes:
        paths: the files.
        is_checked: whether a file must not be live in the table.
    """

    paths: Sequence[str]
    is_checked: bool = True

    def __post_init__(self) -> None:
        if len({*self.paths}) < len(self.paths):
            raise InvalidInputError("file_paths: expected each file once, found one twice")

    def on(self, attempt: Attempt) -> Counts:
        assert isinstance(attempt, IcebergAttempt)
        if self.is_checked:
            find = attempt.find(self.paths)
            if known := [path for path in self.paths if find(path) is not None]:
                raise InvalidInputError(
                    f"file_paths: expected files that are not in {attempt.name}, found {', '.join(known)}"
                )
        check_transforms(attempt.metadata.spec(), attempt.schema)
        entries = on_threads(lambda path: _entry(attempt, path), self.paths, attempt.threads)
        attempt.add(Changes(added=tuple(entries)))
        return Counts(data_files_written=len(self.paths))


def _entry(attempt: IcebergAttempt, path: str) -> ManifestEntry:
    """The manifest entry of a Parquet file, with the metrics of its footer; its columns are found by name."""
    metadata, schema = attempt.metadata, attempt.schema
    file = attempt.io.new_input(path)
    with reading(path), file.open() as stream:
        footer = pq.read_metadata(stream)
    try:
        statistics = statistics_of(footer, metadata)
        partition: Any = statistics.partition(metadata.spec(), schema)
    except (ValueError, TypeError) as error:
        if is_from_outside(error):
            raise
        raise InvalidInputError(f"{path}: {error}") from error
    values = (partition[at] for at in range(len(metadata.spec().fields)))
    return ManifestEntry(
        status=ADDED,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=DATA,
        file_path=path,
        file_format="PARQUET",
        spec_id=metadata.default_spec_id,
        partition=tuple(value.bytes if isinstance(value, UUID) else value for value in values),
        file_size_in_bytes=len(file),
        sort_order_id=UNSORTED_SORT_ORDER_ID,
        **file_metrics(schema, statistics),
    )
