"""Delta tables: reads the log and the live rows, and deletes rows by deletion vectors.

A table is a path, a URI or deltalake's `DeltaTable`. Needs the extra ``delta``.
"""

from __future__ import annotations

import sys

from puffin_fast._runtime.keywords import name_keywords
from puffin_fast._runtime.packages import imports_of_extra

with imports_of_extra("delta"):
    from puffin_fast.delta.dml.delete import DeleteResult, delete, delete_keys, delete_positions
    from puffin_fast.delta.dml.update import UpdateResult, update
    from puffin_fast.delta.dml.upsert import UpsertResult, upsert
    from puffin_fast.delta.log.snapshot import Snapshot, snapshot
    from puffin_fast.delta.maintenance.enable import enable
    from puffin_fast.delta.maintenance.from_iceberg import from_iceberg
    from puffin_fast.delta.maintenance.orphan_files import orphan_files
    from puffin_fast.delta.maintenance.purge import PurgeResult, purge
    from puffin_fast.delta.maintenance.report import report
    from puffin_fast.delta.maintenance.to_iceberg import to_iceberg
    from puffin_fast.delta.maintenance.verify import verify
    from puffin_fast.delta.read.scan import DeltaScan, scan
    from puffin_fast.delta.read.vectors import vectors

__all__ = [
    "DeleteResult",
    "DeltaScan",
    "PurgeResult",
    "Snapshot",
    "UpdateResult",
    "UpsertResult",
    "delete",
    "delete_keys",
    "delete_positions",
    "enable",
    "from_iceberg",
    "orphan_files",
    "purge",
    "report",
    "scan",
    "snapshot",
    "to_iceberg",
    "update",
    "upsert",
    "vectors",
    "verify",
]


name_keywords(sys.modules[__name__], __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
