"""The cost of a Delta table's columns is linear: with twice as many, no verb takes more than about twice as many steps;
a scan of named columns does not translate the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import delta, errors
from puffin_fast.parquet import footer
from tests.delta.tables import alter_fields
from tests.kit.steps import steps_of
from tests.kit.tables import delta_table

N = 120


def rows_of(n_columns: int, first: int = 0) -> pa.Table:
    ids = pa.array(range(first, first + 50), pa.int64())
    return pa.table({"id": ids, **{f"c{at}": pa.array([float(at)] * 50) for at in range(n_columns)}})


# in one thread: two that open files at the same time both compute what the second finds in a cache otherwise
VERBS: dict[str, Callable[[str, int], object]] = {
    "scan of few columns": lambda path, n: delta.scan(
        path, selected_fields=("id", "c7"), threads=1
    ).to_arrow(),
    "scan of all columns": lambda path, n: delta.scan(path, threads=1).to_arrow(),
    "scan of all columns without case": lambda path, n: delta.scan(
        path, "ID < 70", [name.upper() for name in rows_of(n).column_names], case_sensitive=False, threads=1
    ).to_arrow(),
    "scan by an expression": lambda path, n: delta.scan(
        path, pc.field("c1") > 0, ("id",), threads=1
    ).to_arrow(),
    "count": lambda path, n: delta.scan(path, "id < 70 and c1 > 0", threads=1).count(),
    "append": lambda path, n: delta.append(path, rows_of(n, 100)),
    "update": lambda path, n: delta.update(path, "id < 5", {"c1": 2.5}, threads=1),
    "update of all columns": lambda path, n: delta.update(
        path, "id < 5", {f"c{at}": 2.5 for at in range(n)}, threads=1
    ),
    "upsert": lambda path, n: delta.upsert(path, rows_of(n).slice(5, 5), join_cols=["id"], threads=1),
    "delete": lambda path, n: delta.delete(path, "id = 20", threads=1),
    "changes": lambda path, n: delta.changes(path, 0, threads=1).to_arrow(),
    "rewrite": lambda path, n: delta.rewrite_data_files(path, min_input_files=2, threads=1),
    "verify": lambda path, n: delta.verify(path, level="rows", threads=1),
    "orphan files": lambda path, n: delta.orphan_files(path),
}


def test_verbs_take_a_linear_number_of_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: dict[str, list[int]] = {verb: [] for verb in VERBS}
    for n in (10, N, 2 * N):  # the first fills caches
        path = str(delta_table(tmp_path / f"t{n}", [rows_of(n), rows_of(n, 50)]))
        for verb, run in VERBS.items():
            monkeypatch.setattr(footer, "_layouts", {})
            steps[verb].append(steps_of(partial(run, path, n)))
    for verb, (fixed, once, twice) in steps.items():
        assert twice - fixed < 2.2 * (once - fixed) + 10_000, (verb, fixed, once, twice)


def test_a_scan_of_named_columns_does_not_need_the_types_of_the_others(tmp_path: Path) -> None:
    path = delta_table(tmp_path, rows_of(3))
    alter_fields(path, lambda fields: fields[2].update(type="a type of the future"))
    found = delta.scan(path, "id > 40 and c2 = 2.0", ("c0", "_pos")).to_arrow()
    assert found.to_pydict() == {"c0": [0.0] * 9, "_pos": [*range(41, 50)]}
    assert delta.scan(path, "id > 40", ("id",)).count() == 9
    for row_filter, names in (("id > 40", ("*",)), ("c1 > 0", ("id",)), (pc.field("id") > 40, ("id",))):
        with pytest.raises(errors.UnsupportedError, match=r"column c1 is of type a type of the future"):
            delta.scan(path, row_filter, names)


def test_a_scan_that_names_an_unknown_column_says_which_columns_there_are(tmp_path: Path) -> None:
    path = delta_table(tmp_path, rows_of(2).schema)
    for row_filter, names in (("gone > 40", ("id",)), ("id > 40", ("gone",))):
        with pytest.raises(errors.NotFoundError, match=r"gone.*id, c0, c1|gone.*c0, c1, id"):
            delta.scan(path, row_filter, names)


def test_a_scan_of_few_columns_takes_a_few_steps_for_each_of_the_others(tmp_path: Path) -> None:
    steps = []
    for n in (N, 2 * N):
        path = str(delta_table(tmp_path / f"t{n}", rows_of(n)))
        run = partial(VERBS["scan of few columns"], path, n)
        run()
        steps.append(steps_of(run))
    assert steps[1] - steps[0] < 30 * N
