"""The cost of delete files is linear: with twice as many data files and delete files, about twice as many steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import In

from puffin_fast import iceberg
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.manifest import ADDED, DATA, EQUALITY_DELETES, POSITION_DELETES, ManifestEntry
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.iceberg.plan.inventory import take_inventory
from tests.iceberg.conftest import local
from tests.steps import steps_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

FILE_PATH, POS = 2147483546, 2147483545
N = 60
ROWS = 5
COMMITS = 6


def table_of(catalog: SqlCatalog, name: str, n: int, content: int) -> tuple[Table, list[int]]:
    """A table of `n` data files, each with its delete file, appended in several commits; and the ids that are left.

    A delete file deletes a row of an old data file and one of a new one, so that its bounds are wide.
    """
    table = catalog.create_table(name, pa.schema([("id", pa.int64())]), properties={"format-version": "2"})
    folder = local(table.location()) / "data"
    folder.mkdir(parents=True)
    left = set(range(n * ROWS))
    paths = [f"{folder.as_uri().replace('file:///', 'file:/')}/d{at:04d}.parquet" for at in range(n)]
    for first in range(0, n, n // COMMITS):
        added = []
        for at in range(first, first + n // COMMITS):
            added.append(_entry(paths[at], DATA, {"id": 1}, [[*range(at * ROWS, (at + 1) * ROWS)]]))
            if content == EQUALITY_DELETES:
                ids = [at * ROWS, first * ROWS // 2]
                left -= {one for one in ids if one < first * ROWS}  # the older ones
                entry = _entry(f"{paths[at]}.deletes", content, {"id": 1}, [ids])
                entry.equality_ids = [1]
            else:
                ends = paths[at // 3], paths[at]
                left -= {at // 3 * ROWS + 1, at * ROWS + 2}
                entry = _entry(
                    f"{paths[at]}.deletes", content, {"file_path": FILE_PATH, "pos": POS}, [[*ends], [1, 2]]
                )
                entry.lower_bounds = {FILE_PATH: ends[0].encode()}
                entry.upper_bounds = {FILE_PATH: ends[1].encode()}
            added.append(entry)
        commit(table, Changes(added=tuple(added)), base=table.current_snapshot())
        table.refresh()
    return table, sorted(left)


def _entry(path: str, content: int, ids: dict[str, int], columns: list[list[object]]) -> ManifestEntry:
    kinds = [pa.string() if isinstance(values[0], str) else pa.int64() for values in columns]
    schema = pa.schema(
        pa.field(name, kind, metadata={"PARQUET:field_id": str(id)})
        for (name, id), kind in zip(ids.items(), kinds, strict=True)
    )
    where = Path(path.removeprefix("file:"))
    pq.write_table(pa.table(columns, schema=schema), where)
    n_rows, n_bytes = len(columns[0]), where.stat().st_size
    return ManifestEntry(ADDED, None, None, None, content, path, "PARQUET", 0, (), n_rows, n_bytes)


def convert(table: Table) -> object:
    both = iceberg.convert_position_deletes(table), iceberg.convert_equality_deletes(table)
    assert any(one.vectors_written for one in both)
    return both


VERBS: dict[str, Callable[[Table], object]] = {
    "plan": lambda table: plan_files(table).unused,
    "count": lambda table: iceberg.scan(table).count(),
    "scan": lambda table: iceberg.scan(table).to_arrow(),
    "verify": iceberg.verify,
    "report": iceberg.report,
    "many values": lambda table: iceberg.delete(table, In("id", range(-iceberg.scan(table).count(), 0))),
    "delete": lambda table: iceberg.delete(table, "id < 10"),
    "convert": convert,
}


@pytest.mark.parametrize("content", [POSITION_DELETES, EQUALITY_DELETES], ids=["positions", "equality"])
def test_verbs_take_a_linear_number_of_steps(
    shared_catalog: SqlCatalog, namespace: str, content: int
) -> None:
    steps: dict[str, list[int]] = {verb: [] for verb in VERBS}
    for n in (N, 2 * N):
        table, left = table_of(shared_catalog, f"{namespace}.t{n}", n, content)
        for verb, run in VERBS.items():
            if verb == "convert":
                with v3_metadata(shared_catalog):
                    iceberg.upgrade(table)
            steps[verb].append(steps_of(partial(run, table)))
            expected = left if verb not in ("delete", "convert") else [one for one in left if one >= 10]
            assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == expected, (verb, n)
            assert iceberg.scan(table).count() == len(expected)
    for verb, (once, twice) in steps.items():
        assert twice < 2.1 * once, (verb, once, twice)


@pytest.mark.parametrize("content", [POSITION_DELETES, EQUALITY_DELETES], ids=["positions", "equality"])
def test_the_delete_files_of_data_files_are_not_copied(
    shared_catalog: SqlCatalog, namespace: str, content: int
) -> None:
    table, _ = table_of(shared_catalog, f"{namespace}.t", N, content)
    for files in (plan_files(table).tasks, take_inventory(table, table.current_snapshot()).files):
        groups = [
            file.position_deletes if content == POSITION_DELETES else file.equality_deletes for file in files
        ]
        lists = {id(shared): shared for group in groups for shared, _ in group.parts}
        assert sum(map(len, groups)) > 4 * N
        assert sum(len(shared.entries) for shared in lists.values()) <= N * (2 * N).bit_length()
