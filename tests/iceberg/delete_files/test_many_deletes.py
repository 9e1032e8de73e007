"""The cost of delete files is linear: with twice as many data files and delete files, about twice as many steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.manifest import EQUALITY_DELETES, POSITION_DELETES
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.iceberg.plan.inventory import take_inventory
from tests.iceberg.delete_files.many_deletes import table_of
from tests.kit.steps import steps_of

N = 60


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
