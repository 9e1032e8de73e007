"""Compares the manifest entry of a data file with the file's Parquet footer (rows, and metrics of its columns), or with
all its rows: damage of pages and text shows up when they are decoded, in files of any format.

Filters omit data files by these metrics, so a wrong bound or count loses rows. A statistic of strings or bytes may be
truncated, and a truncated maximum has its last character incremented: the part before that character is compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from puffin_fast._concurrency.workers import Workers
from puffin_fast._io import open_source
from puffin_fast._process.cached import cached_property
from puffin_fast.errors import PuffinFastError, UnsupportedError
from puffin_fast.iceberg.manifest import DATA, ManifestEntry, manifests_of, read_manifests
from puffin_fast.iceberg.manifest.columns import Paths
from puffin_fast.iceberg.manifest.geo_bounds import fields_without_order, wrong_bounds
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.puffin.finding import MISMATCH, Finding, kind_of
from puffin_fast.rows.files.files import reading
from puffin_fast.rows.files.parquet import ParquetReader
from puffin_fast.rows.files.projection import FileSchema
from puffin_fast.rows.files.row_groups import RowGroupMetrics
from puffin_fast.rows.filters.bounds import TRUNCATED, decode_bound
from puffin_fast.rows.scan.located_rows import with_text
from puffin_fast.rows.scan.scan import Scan
from puffin_fast.rows.scan.splits import jobs_of

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.name_mapping import NameMapping
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.rows.scan.file_reader import FileReader

MANIFESTS = 8
"""Manifests whose entries are held in memory at the same time, with their metrics."""


def check_data_files(
    table: Table, snapshot: Snapshot | None, paths: Set[str], workers: Workers
) -> dict[str, list[Finding]]:
    """Compares data files with their manifest entries: that they exist, their size, and the footers of Parquet files.

    Of a file only the end is read. The entries of eight manifests are held in memory at a time.

    Args:
        table: a table of format version 1 to 3.
        snapshot: the snapshot; None for an empty branch.
        workers: call the check of a data file.

    Returns:
        the findings by data file, for files that have some.

    Raises:
        CorruptDataError, NotFoundError: the metadata is damaged or missing.
    """
    found: dict[str, list[Finding]] = defaultdict(list)
    if snapshot is None or not paths:
        return found
    manifests = [m for m in manifests_of(table.io, snapshot) if m.content == DATA]
    select = Paths(paths).select
    fields = fields_without_order(table.metadata)
    check = partial(_check, table.io, table.metadata.name_mapping(), table.schema(), fields)
    for first in range(0, len(manifests), MANIFESTS):
        some = manifests[first : first + MANIFESTS]
        for _, entries in read_manifests(table.io, some, table.specs(), select=select):
            for entry, findings in zip(
                entries, workers.each(check, entries, _bytes_read, "checking data files"), strict=True
            ):
                if findings:
                    found[entry.file_path] += findings
    return found


def _bytes_read(data: ManifestEntry) -> int:
    """Few, however large the file is: its footer."""
    return 0


def _check(
    io: FileIO, names: NameMapping | None, schema: Schema, fields: Set[int], data: ManifestEntry
) -> list[Finding]:
    path, found = data.file_path, list[Finding]()
    for id, bound in wrong_bounds(data, fields).items():
        message = f"bounds of field {id}: expected points of 16, 24 or 32 bytes or none, found {bound[:32]!r}"
        found.append(Finding(MISMATCH, path, path, None, f"{path}: {message}; repair removes them"))
    try:
        with open_source(path, filesystem=io) as source:
            size = source.size
        if size != data.file_size_in_bytes:
            message = f"{path}: expected {data.file_size_in_bytes} bytes (manifest), found {size}"
            found.append(Finding(MISMATCH, path, path, None, message))
        if not has_checked_footer(data):
            return found
        file = ParquetReader(io, path, size=size)
        with reading(path):
            messages = list(_messages(names, schema, data, file))
    except PuffinFastError as error:
        return [*found, Finding(kind_of(error), path, path, None, str(error))]
    return found + [Finding(MISMATCH, path, path, None, f"{path}: {message}") for message in messages]


def has_checked_footer(data: ManifestEntry) -> bool:
    """Whether `check_data_files` reads the footer of a data file: of Parquet, and not encrypted."""
    return data.file_format == "PARQUET" and data.key_metadata is None


def _messages(
    names: NameMapping | None, schema: Schema, data: ManifestEntry, file: ParquetReader
) -> Iterator[str]:
    if file.n_rows != data.record_count:
        yield f"rows: expected {data.record_count} (manifest), found {file.n_rows}"
        return
    try:
        known = FileSchema(file.schema, names, path=data.file_path)
    except UnsupportedError:  # columns without ids and names: no metric belongs to one of them
        return
    maps = data.lower_bounds, data.upper_bounds, data.value_counts, data.null_value_counts
    stated = {field_id for metrics in maps for field_id in metrics or ()}
    field_ids = sorted(stated.intersection(schema.field_ids))
    groups = list(file.metrics(known, schema, field_ids))
    yield from _wrong_counts(data, groups)
    for field_id in field_ids:
        column = _Column(schema.find_column_name(field_id), schema.find_type(field_id), field_id)
        for group in groups:
            wrong = column.compare(data, group)
            if wrong is not None:
                yield wrong
                break


def _wrong_counts(data: ManifestEntry, groups: list[RowGroupMetrics]) -> Iterator[str]:
    """Compares the numbers of values and nulls of the columns that have them in every row group."""
    for name in ("value_counts", "null_value_counts"):
        total: Counter[int] = Counter()
        for group in groups:
            total.update(getattr(group, name))
        for field_id, stated in (getattr(data, name) or {}).items():
            actual = total[field_id]
            if stated != actual and groups and all(field_id in getattr(group, name) for group in groups):
                yield f"{name} of field {field_id}: expected {stated} (manifest), found {actual} (footer)"


@dataclass(frozen=True, slots=True)
class _Column:
    name: str | None
    kind: Any
    field_id: int

    def compare(self, data: ManifestEntry, group: RowGroupMetrics) -> str | None:
        """Returns what is wrong with the bounds of a data file, compared with the values of a row group."""
        low, least = self._pair(data.lower_bounds, group.lower_bounds)
        if (
            least is not None
            and low > least
            and not (isinstance(least, (str, bytes)) and low.startswith(least))
        ):
            return self._message("lower bound", low, "at most", least)
        high, most = self._pair(data.upper_bounds, group.upper_bounds)
        if most is None:
            return None
        smallest = most[:-1] if isinstance(most, (str, bytes)) else most
        if isinstance(most, int) and "_ns" in str(self.kind):
            smallest = most - TRUNCATED
        return self._message("upper bound", high, "at least", most) if high < smallest else None

    def _pair(self, stated: dict[int, bytes] | None, actual: dict[int, bytes]) -> tuple[Any, Any]:
        """The decoded bound of the manifest and that of the footer; None twice if one is unknown."""
        pair = tuple(decode_bound(self.kind, found.get(self.field_id)) for found in (stated or {}, actual))
        return (None, None) if None in pair else (pair[0], pair[1])

    def _message(self, what: str, found: Any, relation: str, value: Any) -> str:
        shown = f"expected {relation} {value!r:.60} (footer), found {found!r:.60} (manifest)"
        return f"{what} of column {self.name}: {shown}"


def check_rows(
    scan: Scan, metadata: TableMetadata, files: Sequence[ManifestEntry], workers: Workers
) -> list[Finding]:
    """Reads each data file whole, without its deletes. Memory holds a part of one file per call.

    Args:
        scan: the scan of the snapshot, with all columns.
        workers: call the check of a data file.

    Returns:
        A finding for each file that cannot be read, or that has another number of rows than its manifest entry.
    """
    check = _RowCheck(scan.reader(metadata))
    return [
        finding for found in workers.each(check, files, _file_bytes, "decoding rows") for finding in found
    ]


def _file_bytes(data: ManifestEntry) -> int:
    return data.file_size_in_bytes


class _RowCheck:
    """Reads data files whole; it can be pickled before its first call.

    Args:
        open_reader: makes the reader.
    """

    def __init__(self, open_reader: Callable[..., FileReader]) -> None:
        self._open_reader = open_reader

    @cached_property
    def _reader(self) -> FileReader:
        return self._open_reader()

    def __call__(self, data: ManifestEntry) -> list[Finding]:
        path = data.file_path
        try:
            jobs = jobs_of([FileTask(data)], 1, together=False)
            batches = (batch for job in jobs for group in self._reader.read_all(job) for batch in group)
            n_rows = sum(with_text(batch, path).num_rows for batch in batches)
        except PuffinFastError as error:
            return [Finding(kind_of(error), path, path, None, str(error))]
        if n_rows == data.record_count:
            return []
        message = f"{path}: rows: expected {data.record_count} (manifest), found {n_rows} (decoded)"
        return [Finding(MISMATCH, path, path, None, message)]
