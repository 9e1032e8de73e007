"""Writes checkpoints: all of a version in one Parquet file, so that readers need not read the commits before it.

Source: protocol, "Checkpoints" and "Checkpoint Schema". A table with the feature `v2Checkpoint` gets a "Classic-named
V2 Checkpoint": the same with the action `checkpointMetadata`, and without sidecars.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._io import open_sink
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.delta.log.action_types import as_json
from puffin_fast.delta.log.actions import VECTOR
from puffin_fast.delta.log.segment import LogListing
from puffin_fast.delta.log.snapshot import Snapshot, load_snapshot
from puffin_fast.delta.log.storage import LOG_FOLDER

if TYPE_CHECKING:
    from puffin_fast.delta.log.storage import TableStorage

_LOG = logging.getLogger(__name__)

V2_CHECKPOINT = "v2Checkpoint"

INTERVAL, RETENTION = "delta.checkpointInterval", "delta.deletedFileRetentionDuration"

COMMITS = 10
"""Commits from one checkpoint to the next, if no property says otherwise; as in Spark."""

GROUP_ROWS = 50_000
"""Actions that are held as dictionaries at a time."""

_MOST_DIGITS = 18

_TEXTS = pa.map_(pa.string(), pa.string())
_FILE = [("path", pa.string()), ("partitionValues", _TEXTS), ("size", pa.int64())]
_ROW_IDS = [("baseRowId", pa.int64()), ("defaultRowCommitVersion", pa.int64())]
SCHEMA = pa.schema(
    {
        "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
        "add": pa.struct(
            [
                *_FILE,
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
                ("stats", pa.string()),
                ("tags", _TEXTS),
                ("deletionVector", VECTOR),
                *_ROW_IDS,
                ("clusteringProvider", pa.string()),
            ]
        ),
        "remove": pa.struct(
            [
                *_FILE,
                ("deletionTimestamp", pa.int64()),
                ("dataChange", pa.bool_()),
                ("extendedFileMetadata", pa.bool_()),
                ("stats", pa.string()),
                ("tags", _TEXTS),
                ("deletionVector", VECTOR),
                *_ROW_IDS,
            ]
        ),
        "metaData": pa.struct(
            [
                ("id", pa.string()),
                ("name", pa.string()),
                ("description", pa.string()),
                ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                ("schemaString", pa.string()),
                ("partitionColumns", pa.list_(pa.string())),
                ("createdTime", pa.int64()),
                ("configuration", _TEXTS),
            ]
        ),
        "protocol": pa.struct(
            [
                ("minReaderVersion", pa.int32()),
                ("minWriterVersion", pa.int32()),
                ("readerFeatures", pa.list_(pa.string())),
                ("writerFeatures", pa.list_(pa.string())),
            ]
        ),
        "domainMetadata": pa.struct(
            [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
        ),
    }
)
"""The columns of a checkpoint; each row has one action."""

V2_SCHEMA = SCHEMA.append(pa.field("checkpointMetadata", pa.struct([("version", pa.int64())])))

_UNITS = {"week": 7 * 24 * 3600, "day": 24 * 3600, "hour": 3600, "minute": 60, "second": 1}


def write_checkpoint_if_due(storage: TableStorage, version: int, configuration: Mapping[str, str]) -> None:
    """Writes the checkpoint of a version that was just committed, if its number is a multiple of the table's interval.

    No reader needs it, so a failure is a warning in the log.
    """
    interval = configuration.get(INTERVAL, "")
    is_number = interval.isascii() and interval.isdigit() and len(interval) <= _MOST_DIGITS
    if version % ((int(interval) if is_number else 0) or COMMITS):
        return
    try:
        write_checkpoint(storage, version)
    except Exception as error:
        if is_from_outside(error):
            raise
        _LOG.warning("%s: version %d is committed, but has no checkpoint: %s", storage.root, version, error)


def write_checkpoint(storage: TableStorage, version: int) -> bool:
    """Writes the checkpoint of a version; returns False if it exists.

    Raises:
        PuffinFastError: as `snapshot`, or a file could not be written.
    """
    segment = LogListing.of(storage).segment(version)
    if segment.checkpoint == version:
        return False
    base = load_snapshot(storage, segment)
    base.check_files()
    schema = V2_SCHEMA if V2_CHECKPOINT in base.protocol.writer_features else SCHEMA
    sink, n_rows = pa.BufferOutputStream(), 0
    with pq.ParquetWriter(sink, schema, compression="snappy", write_page_checksum=True) as writer:
        for group in split_by_size(_rows(base), GROUP_ROWS, lambda row: 1):
            rows = list(group)
            writer.write_table(pa.Table.from_pylist(rows, schema))
            n_rows += len(rows)
    data = sink.getvalue()
    if not storage.put(f"{LOG_FOLDER}/{version:020d}.checkpoint.parquet", data.to_pybytes()):
        return False
    hint = {
        "version": version,
        "size": n_rows,
        "sizeInBytes": data.size,
        "numOfAddFiles": base.files.num_rows,
    }
    path = f"{storage.root}/{LOG_FOLDER}/_last_checkpoint"
    open_sink(path, filesystem=storage.filesystem, overwrite=True).write_file(as_json(hint).encode())
    return True


def _rows(base: Snapshot) -> Iterator[dict[str, Any]]:
    """The actions of a version."""
    if V2_CHECKPOINT in base.protocol.writer_features:
        yield {"checkpointMetadata": {"version": base.version}}
    yield {"protocol": base.protocol.action()}
    yield {"metaData": _metadata(base)}
    yield from ({"txn": action} for action in base.latest("txn", "appId"))
    for domain in base.domain_metadata.values():
        yield {"domainMetadata": {**domain, "removed": False}}
    n_files = base.files.num_rows
    for first in range(0, n_files, GROUP_ROWS):
        adds = base.adds(range(first, min(first + GROUP_ROWS, n_files)))
        yield from ({"add": _file(add)} for add in adds)
    now = int(time.time() * 1000)
    yield from (
        {"remove": _file(remove)} for remove in base.tombstones(now - _retention(base.configuration, now))
    )


def _file(action: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: action.get(name) for name in ("partitionValues", "tags")}
    maps = {name: list(values.items()) for name, values in given.items() if values is not None}
    return {**action, **maps, "dataChange": False}


def _metadata(base: Snapshot) -> dict[str, Any]:
    action = dict(base.metadata)
    format = dict(action.get("format") or {"provider": "parquet"})
    format["options"] = list((format.get("options") or {}).items())
    return {**action, "format": format, "configuration": list(base.configuration.items())}


def _retention(configuration: Mapping[str, str], now: int) -> int:
    """Milliseconds for which removed files stay in checkpoints: a week by default, forever if the property is wrong."""
    text = configuration.get(RETENTION, "interval 7 days").lower().removeprefix("interval").strip()
    parts = re.findall(r"(\d+)\s*([a-z]+?)s?\b", text)
    if not parts or any(unit not in _UNITS for _, unit in parts):
        return now
    return min(now, sum(int(number[:_MOST_DIGITS]) * _UNITS[unit] for number, unit in parts) * 1000)
