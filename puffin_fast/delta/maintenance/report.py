"""Reports what the deletion vectors of a Delta table cost, from the log alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._api.arguments import check_share
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._text import counted
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.log.storage import INLINE
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.verbs.table_report import FILES, Report


def report(
    table: Any,
    *,
    version: int | None = None,
    as_of: int | str | datetime | None = None,
    share: float = 0.1,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> Report:
    """Reports what deletes cost the data files of a version.

    Args:
        table, version, as_of, filesystem, storage_options: as `scan`.
        share: deleted share of a data file's rows at which a rewrite is advised, as `min_deleted` of `purge`.

    Returns:
        The report, with the columns of an Iceberg table's. Its ``advice`` is ``rewrite`` or empty; Delta has no
        position-delete files, no equality deletes and no NDV statistics.

    Raises:
        InvalidInputError: the share is not between 0 and 1.
        NotFoundError, UnsupportedError, CorruptDataError: as `scan`.

    Examples:
        >>> result = pf.delta.delete(path, "id < 50")
        >>> for advice in pf.delta.report(path).advice:
        ...     print(advice.partition(":")[0])
        purge
    """
    filesystem = filesystem_of(table, filesystem, storage_options)
    check_share("share", share)
    base = (
        table
        if isinstance(table, Snapshot)
        else snapshot(table, version=version, as_of=as_of, filesystem=filesystem)
    )
    data = plan_files(DeltaTable.of(base)).to_arrow()
    found = data.filter(pc.is_valid(data["vector_path"]))
    rows = [_row(row, share) for row in found.to_pylist()]
    rows.sort(key=lambda row: (-row["wasted_bytes"], row["data_file"]))
    n_rows, deleted = sum(data["n_rows"].to_pylist()), sum(row["deleted"] for row in rows)
    wasted = sum(row["wasted_bytes"] for row in rows)
    totals = {
        "data_files": data.num_rows,
        "data_files_with_deletes": len(rows),
        "rows": n_rows,
        "deleted": deleted,
        "share": deleted / n_rows if n_rows else 0.0,
        "n_bytes": sum(data["size"].to_pylist()),
        "wasted_bytes": wasted,
        "vectors": len(rows),
        "vector_files": len(
            {path for path in found["vector_path"].to_pylist() if not path.startswith(INLINE)}
        ),
        "vector_bytes": sum(found["length"].to_pylist()),
    }
    n_rewritten = sum(row["advice"] != "" for row in rows)
    advice = (
        f"purge: {counted(n_rewritten, 'data file')} with many deleted rows; deleted rows take {wasted:,} bytes of the "
        "table"
    )
    files = pa.Table.from_pylist(rows, FILES)
    return Report(base.root, files, totals, (advice,) if n_rewritten else ())


def _row(file: dict[str, Any], least: float) -> dict[str, Any]:
    share = file["cardinality"] / file["n_rows"] if file["n_rows"] else 0.0
    return {
        "data_file": file["file_path"],
        "rows": file["n_rows"],
        "deleted": file["cardinality"],
        "share": share,
        "n_bytes": file["size"],
        "wasted_bytes": round(file["size"] * share),
        "vectors": 1,
        "position_delete_files": 0,
        "equality_delete_files": 0,
        "advice": "rewrite" if share >= least else "",
    }
