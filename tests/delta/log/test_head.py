"""The head of a version, its protocol and metadata without its files, is that of the whole version."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from puffin_fast import delta
from puffin_fast.delta.log.segment import LogListing, commit_path
from puffin_fast.delta.log.snapshot import load_head, load_snapshot
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.errors import CorruptDataError
from tests.conftest import require_module
from tests.delta.tables import commit_of, remove_commits
from tests.kit.tables import delta_table


def check_heads(table: Path) -> None:
    storage = storage_of(str(table), None)
    listing = LogListing.of(storage)
    first = min([*listing.commits, *(at for at, _ in listing.checkpoints)])
    for version in range(first, listing.latest + 1):
        segment = listing.segment(version)
        head, whole = load_head(storage, segment), load_snapshot(storage, segment)
        assert (head.version, head.metadata, head.protocol) == (version, whole.metadata, whole.protocol)
        assert head.files.num_columns == 0


def test_each_version_of_each_form_of_log(table: Path) -> None:
    check_heads(table)


def test_the_newest_metadata_counts_and_values_may_take_several_lines(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    delta_table(tmp_path, pa.table([[1], ['"metaData"']], schema=schema))
    (metadata,) = commit_of(tmp_path, 0)["metaData"]
    newer = {"metaData": metadata | {"configuration": {"a": "b"}}}
    (tmp_path / commit_path(2)).write_text(json.dumps(newer, indent=2))
    check_heads(tmp_path)
    require_module("deltalake").DeltaTable(str(tmp_path)).create_checkpoint()
    remove_commits(tmp_path, (0, 1))
    check_heads(tmp_path)


def test_damage_of_the_log_is_named(tmp_path: Path) -> None:
    delta.create_table(tmp_path, pa.schema([("id", pa.int64())]))
    path = tmp_path / commit_path(0)
    lines = path.read_text().splitlines()
    at = next(at for at, line in enumerate(lines) if "metaData" in line)
    path.write_text("\n".join([*lines[:at], '{"metaData": 7}', *lines[at + 1 :]]))
    with pytest.raises(CorruptDataError, match=rf"{commit_path(0)}.*line {at + 1}"):
        delta.changes(tmp_path)
    path.write_text("\n".join([*lines[:at], *lines[at + 1 :]]))
    with pytest.raises(CorruptDataError, match="metaData of version 0"):
        delta.changes(tmp_path)
