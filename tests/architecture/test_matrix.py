"""Each cell of the table of engines is shown by a test that exists."""

from __future__ import annotations

import ast
from functools import cache

from tests.architecture.engines import MATRIX, ROOT
from tests.kit.cases import each


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@each("cell", sorted({cell for row in MATRIX for cell in row[2:] if cell != "-"}))
def test_each_cell_is_shown_by_a_test(cell: str) -> None:
    path, _, name = cell.rpartition(" ")[2].partition("::")
    assert name in functions(path)
