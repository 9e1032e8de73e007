"""Reads and writes manifests and manifest lists of format versions 1 to 3, with all of their fields.

```
metadata.json -> manifest list (a record per manifest) -> manifest (a record per file) -> data or delete file
```
Readers replace null sequence numbers, snapshot ids and first row ids by inherited values (table specification,
"Sequence Number Inheritance" and "First Row ID Inheritance"). Writers leave them null, so that a retried commit
reuses its manifests.
"""

from __future__ import annotations

from puffin_fast.iceberg.manifest.entries import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EQUALITY_DELETES,
    EXISTING,
    POSITION_DELETES,
    UNASSIGNED,
    Key,
    ManifestEntry,
    ManifestFile,
    PartitionSummary,
    content_of,
    counts_of,
    key_of,
    partition_type,
)
from puffin_fast.iceberg.manifest.reader import (
    manifests_of,
    read_columns,
    read_manifest,
    read_manifest_list,
    read_manifests,
    read_many,
)
from puffin_fast.iceberg.manifest.writer import (
    can_write,
    check_transforms,
    write_manifest,
    write_manifest_list,
)

__all__ = [
    "ADDED",
    "DATA",
    "DELETED",
    "DELETES",
    "EQUALITY_DELETES",
    "EXISTING",
    "POSITION_DELETES",
    "UNASSIGNED",
    "Key",
    "ManifestEntry",
    "ManifestFile",
    "PartitionSummary",
    "can_write",
    "check_transforms",
    "content_of",
    "counts_of",
    "key_of",
    "manifests_of",
    "partition_type",
    "read_columns",
    "read_many",
    "read_manifest",
    "read_manifest_list",
    "read_manifests",
    "write_manifest",
    "write_manifest_list",
]
