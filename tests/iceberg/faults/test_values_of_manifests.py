"""Values of every kind in place of those of manifest lists, manifests and Puffin footers."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform

from puffin_fast import errors, iceberg
from puffin_fast.iceberg.manifest import manifests_of
from tests.iceberg.conftest import RacingCatalog, local
from tests.values import KINDS, avro_cases, avro_replaced, places, replaced

N_CASES = int(os.environ.get("PUFFIN_FAST_OPERATIONS", 100))
ROWS = pa.table({"id": range(10), "part": ["a", "b"] * 5, "x": [1.5, None] * 5})


@pytest.fixture(params=[2, 3])
def table(racing: RacingCatalog, request: pytest.FixtureRequest) -> Table:
    """A table with partitions, a vector in each and statistics; nothing is committed to it anew."""
    properties = {"format-version": "2", "commit.retry.num-retries": "0"}
    made = racing.create_table("n.t", ROWS.schema, properties=properties)
    with made.update_spec() as update:
        update.add_identity("part").add_field("id", BucketTransform(2), "bucket")
    if request.param == 3:
        iceberg.upgrade(made)
    iceberg.append(made, ROWS)
    iceberg.delete(made, "id = 3")
    iceberg.delete(made, "part = 'b' and id = 1")
    iceberg.collect_ndv(made)
    return made


def verbs(table: Table) -> None:
    """Each verb that reads the files; only errors of this package, and rows that are as many as their count."""
    with suppress(errors.PuffinFastError):
        n_rows = iceberg.scan(table).to_arrow().num_rows
        assert iceberg.scan(table).count() == n_rows
    with suppress(errors.PuffinFastError):
        iceberg.scan(table, "part = 'b' and id > 4 and x is null").to_arrow()
    with suppress(errors.PuffinFastError):
        iceberg.delete(table, "id = 5", dry_run=True)
    with suppress(errors.PuffinFastError):
        iceberg.verify(table)
    with suppress(errors.PuffinFastError):
        iceberg.report(table)
    with suppress(errors.PuffinFastError):
        iceberg.maintain(table, dry_run=True)
    with suppress(errors.PuffinFastError):
        iceberg.repair(table, dry_run=True)


def check(table: Table, path: Path, case: object, data: bytes | None) -> None:
    """Runs the verbs with other bytes in place of a file's."""
    if data is None:
        return
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        verbs(table)
    except Exception as error:
        error.add_note(f"{path.name}: {case}")
        raise
    path.write_bytes(before)


def test_values_of_manifests_are_refused_or_read(table: Table) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    files = [local(snapshot.manifest_list)]
    files += [local(manifest.path) for manifest in manifests_of(table.io, snapshot)]
    for seed, path in enumerate(files):
        data = path.read_bytes()
        cases = avro_cases(data)
        for case in random.Random(seed).sample(cases, min(len(cases), N_CASES // 4 // len(files))):
            check(table, path, case, avro_replaced(data, case))


def footers(table: Table) -> Iterator[Path]:
    for task in iceberg.plan_files(table).tasks:
        if task.vector is not None:
            yield local(task.vector.file_path)
    for file in table.metadata.statistics:
        yield local(file.statistics_path)


def test_values_of_puffin_footers_are_refused_or_read(table: Table) -> None:
    for seed, path in enumerate(sorted(set(footers(table)))):
        data = path.read_bytes()
        start = len(data) - 12 - int.from_bytes(data[-12:-8], "little")
        document: dict[str, Any] = json.loads(data[start:-12])
        cases = [(at, kind) for at in places(document) for kind in KINDS]
        for at, kind in random.Random(seed).sample(cases, min(len(cases), N_CASES // 15)):
            body = json.dumps(replaced(document, at, kind)).encode()
            changed = data[:start] + body + len(body).to_bytes(4, "little") + data[-8:]
            check(table, path, (at, kind), changed)


CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("value", ("data_file", "record_count"), 2**63 - 1),
    ("value", ("data_file", "record_count"), -1),
    ("value", ("data_file", "file_size_in_bytes"), 2**63 - 1),
    ("type", ("data_file", "partition", "part"), {}),
    ("type", ("data_file", "partition", "part"), [0]),
]
"""Values that verbs raised other errors for."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_that_no_file_has_are_refused_or_read(
    table: Table, case: tuple[str, tuple[Any, ...], Any]
) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    for manifest in manifests_of(table.io, snapshot):
        path = local(manifest.path)
        check(table, path, case, avro_replaced(path.read_bytes(), case))
