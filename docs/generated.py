"""Writes the parts of documents that are made from data (``python -m docs.generated``, which ``make docs`` runs).

A part stands between ``<!-- begin NAME -->`` and ``<!-- end -->``, so that it is read in the repository too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import cost_tables, figures
from tests.architecture import engines

ROOT = Path(__file__).parents[1]

PART = re.compile(r"(?<=<!-- begin )([a-z-]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
PARTS: dict[str, Callable[[], str]] = {
    **{f"figures-{name}": partial(figures.table, name) for name in figures.TABLES},
    "figures-shapes": figures.shapes,
    "figures-shapes-memory": figures.shapes_memory,
    "figures-floors": figures.floors,
    "figures-object-store": figures.object_store,
    "figures-changes-on-spark": figures.changes_on_spark,
    "costs-measured": cost_tables.where,
    "costs-units": cost_tables.unit_costs,
    "costs-by-position": cost_tables.by_position,
    "costs-by-search": cost_tables.by_search,
    "engines": engines.table,
}
DOCUMENTS = ("README.md", "docs/performance.md", "docs/compatibility.md", "docs/spark-cost.md")
PICTURES = {"docs/speed.svg": figures.picture}


def generate() -> dict[Path, str]:
    """The documents and pictures with their generated parts as the data are now."""
    made = {ROOT / name: draw() for name, draw in PICTURES.items()}
    for name in DOCUMENTS:
        text = (ROOT / name).read_text()
        made[ROOT / name] = PART.sub(lambda part: f"{part[1]}{part[2]}\n{PARTS[part[1]]()}\n", text)
    return made


if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text)
