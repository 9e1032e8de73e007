"""Reports what the deletion vectors of a Delta table cost, from the log alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._text import counted
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import INLINE
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.verbs.table_report import FILES, Report


def costs(base: Snapshot, share: float) -> Report:
    """`report` of a version, with a checked share."""
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
