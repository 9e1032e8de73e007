"""Pairs of equal deleted and inserted rows: as many as a plain model finds, with the same values."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from puffin_fast.rows.changes.pairing import equal_rows
from tests.kit.cases import each

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.int64(), [None, 0, 1, 2**63 - 1]),
    "small": (pa.int8(), [None, -1, 0]),
    "float": (pa.float64(), [None, 0.0, -0.0, NAN, 1.5]),
    "text": (pa.large_string(), [None, "", "a", "ab"]),
    "flag": (pa.bool_(), [None, True, False]),
    "list": (pa.list_(pa.int32()), [None, [], [1], [1, None]]),
    "struct": (pa.struct([("a", pa.int32())]), [None, {"a": None}, {"a": 1}]),
    "nothing": (pa.null(), [None]),
}


@each("names", [[*VALUES], ["number"], ["float", "text"], ["list"], ["nothing"], ["text", "struct"]])
@each("seed", range(10))
def test_equal_rows_are_paired_as_often_as_both_sides_have_them(names: list[str], seed: int) -> None:
    chance = random.Random(seed)
    n = chance.choice([0, 1, 7, 200])
    lists = [[chance.choice(VALUES[name][1]) for _ in range(n)] for name in names]
    columns = [pa.array(values, VALUES[name][0]) for name, values in zip(names, lists, strict=True)]
    is_deleted = np.array([chance.random() < 0.5 for _ in range(n)], np.bool_)
    deleted, inserted = np.flatnonzero(is_deleted), np.flatnonzero(~is_deleted)
    left, right = equal_rows(columns, deleted, inserted)
    assert len({*left.tolist()}) == len({*right.tolist()}) == len(left) == len(right)
    assert is_deleted[left].all()
    assert not is_deleted[right].any()
    rows = [repr(row) for row in zip(*lists, strict=True)]
    assert [rows[at] for at in left] == [rows[at] for at in right]
    sides = [Counter(rows[at] for at in side) for side in (deleted, inserted)]
    assert Counter(rows[at] for at in left) == sides[0] & sides[1]
