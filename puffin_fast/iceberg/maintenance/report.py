"""Reports what the deletes of a table cost, and its NDV statistics: tables, charts, and advice.

More than 400 lines: one file for all forms of one report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._text import counted
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.catalogs.working_table import with_history
from puffin_fast.iceberg.compat.table_properties import target_file_size
from puffin_fast.iceberg.maintenance.report_tables import (
    by_partition,
    key_indexes,
    over_snapshots,
)
from puffin_fast.iceberg.manifest import EQUALITY_DELETES
from puffin_fast.iceberg.plan.files import resolve
from puffin_fast.iceberg.plan.inventory import DeleteInventory, FileDeletes, take_inventory
from puffin_fast.iceberg.statistics.read import ndv
from puffin_fast.rows.rewrite.file_groups import GroupLimits, known_deleted
from puffin_fast.rows.shared_deletes import distinct
from puffin_fast.verbs.table_report import FILES, KEY_INDEXES, NDV, Report

if TYPE_CHECKING:
    from pyiceberg.table import Table


def costs(table: Table, share: float, **selected: Any) -> Report:
    """`report` with checked arguments."""
    snapshot, _ = resolve(table, **selected)
    found = take_inventory(table, snapshot)
    rewritten = _rewritten(table, found, share)
    rows = [_row(file, rewritten) for file in found.files if _has_deletes(file)]
    rows.sort(key=lambda row: (-row["wasted_bytes"], row["data_file"]))
    totals = _totals(found, rows)
    name = ".".join(table.name())
    files = pa.Table.from_pylist(rows, FILES)
    n_dangling = sum(entry.is_vector for entry in found.dangling)
    advice = list(_advice(totals, rows, len(rewritten), n_dangling, table.metadata.format_version))
    counts = NDV.empty_table()
    if snapshot is not None:
        try:
            counts = ndv(table, **selected)
        except PuffinFastError as error:
            advice.append(f"collect_ndv: the statistics cannot be read: {error}")
    indexes = KEY_INDEXES.empty_table()
    if snapshot is not None:
        notes: list[str] = []
        data = [file.data for file in found.files]
        history = with_history(table, snapshot)
        indexes = key_indexes(table.io, history, table.schema(), snapshot, data, notes)
        advice += [f"index_keys: a part of an index cannot be read: {note}" for note in notes]
        advice += [
            f"index_keys: {counted(left, 'data file')} came after the index of {row['columns']}"
            for row in indexes.to_pylist()
            if (left := len(data) - row["data_files"])
        ]
    deleted = {row["data_file"]: row["deleted"] for row in rows}
    partitions = by_partition(table.metadata, found, deleted)
    return Report(
        name, files, totals, tuple(advice), counts, partitions, over_snapshots(table, snapshot), indexes
    )


def _has_deletes(file: FileDeletes) -> bool:
    return bool(file.vectors or file.position_deletes or file.equality_deletes)


def _rewritten(table: Table, found: DeleteInventory, min_deleted: float) -> set[str]:
    """The data files that `rewrite_data_files` would rewrite."""
    tasks = [file.task for file in found.files if len(file.vectors) < 2]
    groups = GroupLimits.of(target_file_size(table.properties), min_deleted=min_deleted).groups(tasks)
    return {task.data.file_path for group in groups for task in group}


def _row(file: FileDeletes, rewritten: set[str]) -> dict[str, Any]:
    data = file.data
    if len(file.vectors) > 1:
        deleted = max(vector.record_count for vector in file.vectors)
        advice = "repair"
    else:
        deleted = known_deleted(file.task)
        if data.file_path in rewritten:
            advice = "rewrite"
        else:
            advice = "convert" if file.equality_deletes or file.task.position_deletes else ""
    share = deleted / data.record_count if data.record_count else 0.0
    return {
        "data_file": data.file_path,
        "rows": data.record_count,
        "deleted": deleted,
        "share": share,
        "n_bytes": data.file_size_in_bytes,
        "wasted_bytes": min(data.file_size_in_bytes, round(data.file_size_in_bytes * share)),
        "vectors": len(file.vectors),
        "position_delete_files": len(file.position_deletes),
        "equality_delete_files": len(file.equality_deletes),
        "advice": advice,
    }


def _totals(found: DeleteInventory, rows: list[dict[str, Any]]) -> dict[str, int | float]:
    groups = chain.from_iterable((file.position_deletes, file.equality_deletes) for file in found.files)
    others = {entry.file_path: entry for entry in distinct(groups)}
    others.update((entry.file_path, entry) for entry in found.dangling if not entry.is_vector)
    equality = sum(entry.content == EQUALITY_DELETES for entry in others.values())
    n_rows, deleted = sum(file.data.record_count for file in found.files), sum(row["deleted"] for row in rows)
    return {
        "data_files": len(found.files),
        "data_files_with_deletes": len(rows),
        "rows": n_rows,
        "deleted": deleted,
        "share": deleted / n_rows if n_rows else 0.0,
        "n_bytes": sum(file.data.file_size_in_bytes for file in found.files),
        "wasted_bytes": sum(row["wasted_bytes"] for row in rows),
        "vectors": sum(1 for _ in found.vectors()),
        "puffin_files": len({vector.file_path for vector in found.vectors()}),
        "vector_bytes": sum(vector.content_size_in_bytes or 0 for vector in found.vectors()),
        "position_delete_files": len(others) - equality,
        "equality_delete_files": equality,
        "dangling": len(found.dangling),
    }


def _advice(
    totals: dict[str, int | float],
    rows: list[dict[str, Any]],
    n_rewritten: int,
    n_dangling: int,
    version: int,
) -> Iterator[str]:
    counts = Counter(row["advice"] for row in rows)
    if counts["repair"]:
        yield f"repair: several vectors for {counted(counts['repair'], 'data file')}; no engine reads the table"
    for kind in ("position", "equality"):
        if n := int(totals[f"{kind}_delete_files"]):
            first = "upgrade to format version 3, then " if version < 3 else ""
            yield f"{first}convert: {counted(n, f'{kind}-delete file')}"
    files, n_vectors = totals["puffin_files"], int(totals["vectors"])
    if files > 1 and totals["vector_bytes"] / files < 1 << 20:
        yield f"compact: {counted(n_vectors, 'vector')} in {files:,} small Puffin files"
    elif n_dangling:
        yield f"compact: {counted(n_dangling, 'vector')} of no live data file"
    if n_rewritten:
        first = "upgrade, then " if version < 2 else ""
        yield (
            f"{first}rewrite_data_files: {counted(n_rewritten, 'data file')}, small or with many deleted rows; "
            f"deleted rows take {totals['wasted_bytes']:,} bytes of the table"
        )
