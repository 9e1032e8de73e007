"""The table of functions and formats in the reference: ``python -m tests.architecture.formats`` writes it again."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from puffin_fast.tables.opening import FORMATS
from puffin_fast.tables.table import Table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"
_MARKS = re.compile(r"(?<=<!-- functions -->\n).*?(?=\nIn the examples)", re.DOTALL)


def functions() -> dict[str, inspect.Signature]:
    """The functions that are methods of a table, in their order on the page."""
    found = {
        name: inspect.signature(one)
        for name, one in inspect.getmembers(Table, inspect.isfunction)
        if one.__module__ == "puffin_fast"
    }
    order = re.findall(r"^::: pf\.(\w+)", PAGE.read_text(), flags=re.MULTILINE)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0])))


def rows() -> list[str]:
    """The lines of the table."""
    kinds = [one.kind() for one in FORMATS]
    lines = [
        f"| function | {' | '.join(one.name for one in FORMATS)} | workers |",
        f"|---{'|---' * len(FORMATS)}|---|",
    ]
    for name, signature in functions().items():
        has = " | ".join("" if name in kind.lacks else "yes" for kind in kinds)
        lines.append(f"| `{name}` | {has} | {'yes' if 'workers' in signature.parameters else ''} |")
    return lines


def page() -> str:
    """The page with the table as it should be."""
    return _MARKS.sub("\n" + "\n".join(rows()) + "\n", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
