"""The strict reader of `tests.kit.vectors` takes the vectors of this package, whichever verb wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from tests.iceberg.maintenance.maintained import add_vector
from tests.interop.shared_vectors import VERBS, shared
from tests.kit.cases import each
from tests.kit.rows import by_pyiceberg, by_us
from tests.kit.tables import iceberg_table, parts
from tests.kit.vectors import by_vectors, read_vectors

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.kit.faults import RacingCatalog

HERE = [verb for verb in VERBS if not verb.startswith("Spark: ")]
ORDER = "all columns"


def check(table: Table) -> None:
    assert by_vectors(table, ORDER) == by_us(table, order=ORDER) == by_pyiceberg(table, order=ORDER)


@pytest.mark.parametrize("partition", [(), ("bucket[2](id)",)], ids=["unpartitioned", "partitioned"])
def test_vectors_of_each_verb_and_of_a_second_one_are_taken(
    racing: RacingCatalog, partition: tuple[str, ...]
) -> None:
    @each("verb", HERE)
    def check_verb(verb: str) -> None:
        table = shared(racing, f"n.{verb.replace(' ', '_')}", partition=partition)
        n_shared = len(read_vectors(table))
        assert n_shared >= 4
        VERBS[verb](table, None)
        check(table)
        iceberg.delete(table, "id in (21, 41)")
        check(table)
        assert read_vectors(table)

    check_verb()


def test_converted_position_deletes_are_taken(racing: RacingCatalog) -> None:
    rows = pa.table({"id": range(90), "g": [f"/ü=%{i // 45}" for i in range(90)]})
    table = iceberg_table(racing, parts(rows, 3), version=2, partition=("g",))
    iceberg.delete(table, "id in (1, 31, 32, 61)")
    iceberg.upgrade(table)
    iceberg.delete(table, "id in (2, 33)")
    iceberg.convert_position_deletes(table)
    check(table)
    assert sum(map(len, read_vectors(table).values())) == 6


def test_repaired_vectors_are_taken(racing: RacingCatalog) -> None:
    table = iceberg_table(racing, parts(pa.table({"id": range(90)}), 3))
    first, second, _ = (task.data for task in iceberg.plan_files(table).tasks)
    add_vector(table, first, [1, 2])
    add_vector(table, first, [3])
    add_vector(table, second, [3], record_count=2)
    iceberg.repair(table)
    check(table)
    assert sorted(read_vectors(table).values()) == [[1, 2, 3], [3]]


@each(
    "deleted",
    [
        [*range(0, 200_000, 50)],
        [*range(70_000)],
        [*range(0, 140_000, 2)],
        [0, 65_535, 65_536, 131_071, 131_072],
        [*range(200_000)],
    ],
    ids=lambda deleted: len(deleted),
)
def test_containers_of_each_kind_are_taken(racing: RacingCatalog, deleted: list[int]) -> None:
    table = iceberg_table(
        racing, {"id": range(200_000)}, name=f"n.from_{deleted[0]}_to_{deleted[-1]}_{deleted[1]}"
    )
    iceberg.delete_keys(table, pa.table({"id": deleted}), "id")
    positions = read_vectors(table)
    assert [*positions.values()] == ([deleted] if len(deleted) < 200_000 else [])
    assert iceberg.scan(table).to_arrow().num_rows == 200_000 - len(deleted)
