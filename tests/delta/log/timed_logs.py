"""Logs whose commits have given times, in the file system and in the commits."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from puffin_fast import delta
from puffin_fast.delta.log.checkpoint_writer import write_checkpoint
from puffin_fast.delta.log.segment import commit_path
from puffin_fast.delta.log.storage import storage_of
from tests.delta.tables import lines_of, write_lines
from tests.kit.tables import delta_table

BEGIN = 1_700_000_000_000
"""The first time, in milliseconds since 1970."""
_PREFIX = "delta.inCommitTimestampEnablement"


@dataclass(frozen=True)
class TimedLog:
    """The times of a log; version N has N rows.

    Attributes:
        modified: the modification times of the commits' files, after `BEGIN`.
        stamps: the in-commit timestamps of the versions that have one, which are the last ones.
        first: the first version whose commit is left.
        checkpoint: a version that has a checkpoint; None for none.
    """

    modified: tuple[int, ...]
    stamps: Mapping[int, int]
    first: int = 0
    checkpoint: int | None = None

    @classmethod
    def random(cls, seed: int) -> TimedLog:
        chance = random.Random(seed)
        n = chance.randint(2, 9)
        modified = [chance.randint(0, 30) for _ in range(n)]
        if chance.random() < 0.3:
            modified.sort()
        enabled = chance.choice([0, n, chance.randint(1, n), chance.randint(1, n)])
        stamps, time = dict[int, int](), chance.randint(0, 20)
        for version in range(enabled, n):
            stamps[version] = time
            time += chance.randint(1, 8)
        log = cls(tuple(modified), stamps)
        if n > 3 and chance.random() < 0.4:
            first = chance.randint(1, n - 2)
            log = replace(log, first=first, checkpoint=chance.randint(first - 1, n - 2))
        return log

    def write(self, table: Path) -> None:
        delta_table(table, pa.schema([("id", pa.int64())]))
        for version in range(1, len(self.modified)):
            delta.append(table, pa.table({"id": [version]}))
        enabled = min(self.stamps, default=None)
        for version in range(len(self.modified)):
            lines = lines_of(table, version)
            for line in lines:
                if "commitInfo" in line and version in self.stamps:
                    stamp = BEGIN + self.stamps[version]
                    line["commitInfo"] = {"inCommitTimestamp": stamp, **line["commitInfo"]}
                if "protocol" in line:
                    line["protocol"]["writerFeatures"].append("inCommitTimestamp")
                if "metaData" in line:
                    metadata = line
            if version == enabled:
                settings = metadata["metaData"]["configuration"]
                settings["delta.enableInCommitTimestamps"] = "true"
                if version:
                    settings[f"{_PREFIX}Version"] = str(version)
                    settings[f"{_PREFIX}Timestamp"] = str(BEGIN + self.stamps[version])
                    lines.append(metadata)
            write_lines(table, version, lines)
        if self.checkpoint is not None:
            assert write_checkpoint(storage_of(table), self.checkpoint)
        for version, time in enumerate(self.modified):
            path = table / commit_path(version)
            if version < self.first:
                path.unlink()
            else:
                os.utime(path, ns=(0, (BEGIN + time) * 1_000_000))
        shutil.rmtree(table / "_delta_log" / "_commits", ignore_errors=True)

    @property
    def enabled(self) -> int:
        """The first version that has an in-commit timestamp."""
        return min(self.stamps, default=len(self.modified))

    def times(self, first: int) -> dict[int, int]:
        """The times of the versions from one on."""
        found, last = dict[int, int](), -1
        for version in range(first, self.enabled):
            found[version] = last = max(self.modified[version], last + 1)
        return found | {version: time for version, time in self.stamps.items() if version >= first}

    def newest_at(self, time: int, first: int) -> int | None:
        """The newest version at a time, of those from one on."""
        stamped = bool(self.stamps) and (self.enabled == 0 or time >= self.stamps[self.enabled])
        known = (version for version, own in self.times(first).items() if own <= time)
        return max((version for version in known if (version >= self.enabled) == stamped), default=None)

    @property
    def loadable(self) -> int:
        """The first version that can be loaded and has a commit."""
        return 0 if self.checkpoint is None else max(self.checkpoint, self.first)
