"""The conditions of an AND are evaluated in turn, for the rows that are left: as if each were for every row."""

from __future__ import annotations

import random

import pyarrow.compute as pc
import pytest
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import assign_fresh_schema_ids

from puffin_fast.rows.filters import filters
from puffin_fast.rows.filters.filters import RowFilter
from tests.rows.files.random_files import NESTED, random_rows, row_filter


@pytest.mark.parametrize("few", [1, 8, 1 << 40], ids=["always", "usual", "if none is left"])
def test_conditions_in_turn_select_what_arrow_selects_for_all_rows(
    monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(filters, "FEW_ROWS", few)
    chance, n_rows, n_matched = random.Random(few), 200, 0
    for _ in range(40):
        rows = random_rows(chance, n_rows).drop_columns([*NESTED])
        schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(rows.schema))
        columns = {field.field_id: rows[field.name].combine_chunks() for field in schema.fields}
        for _ in range(8):
            (one, left), (other, right) = (row_filter(chance, rows) for _ in range(2))
            text = f"({one}) and ({other})"
            found = RowFilter.bind(text, schema).mask(columns, n_rows)
            assert found.tolist() == pc.fill_null(pc.and_kleene(left, right), False).to_pylist(), text
            n_matched += found.sum()
    assert n_matched > 1000
