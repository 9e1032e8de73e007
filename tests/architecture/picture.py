"""Draws the packages by layer: ``python -m tests.architecture.picture`` writes docs/layers.svg."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from tests.architecture.layers import FOLDERS, LAYERS

PICTURE = Path(__file__).parents[2] / "docs" / "layers.svg"
WIDTH, ROW, GAP = 860, 46, 8
SHOWN = {name: layer for name, layer in LAYERS.items() if name != "__main__"}


def box(left: float, top: float, width: float, name: str) -> str:
    """One package: its name, and below it its folders from the lowest."""
    folders = " · ".join(FOLDERS.get(name, ()))
    middle, line = left + width / 2, top + (19 if folders else 28)
    parts = [
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{ROW}" rx="5"/>',
        f'<text x="{middle:g}" y="{line:g}">{name}</text>',
    ]
    if folders:
        parts.append(f'<text x="{middle:g}" y="{top + 36:g}" class="folders">{folders}</text>')
    return "\n".join(parts)


def draw() -> str:
    """The drawing as SVG: the higher a package stands, the more it may import."""
    rows = [list(names) for _, names in groupby(sorted(SHOWN, key=SHOWN.__getitem__), SHOWN.__getitem__)]
    height = len(rows) * (ROW + GAP) + GAP
    boxes = []
    for number, names in enumerate(reversed(rows)):
        shares = [1 + sum(map(len, FOLDERS.get(name, ()))) / 12 for name in names]
        unit = (WIDTH - GAP * (len(names) + 1)) / sum(shares)
        left = float(GAP)
        for name, share in zip(names, shares, strict=True):
            boxes.append(box(round(left, 1), GAP + number * (ROW + GAP), round(unit * share, 1), name))
            left += unit * share + GAP
    style = (
        "rect{fill:#e8eaf6;stroke:#3f51b5} text{font:14px sans-serif;text-anchor:middle;fill:#1a237e} "
        ".folders{font-size:11px}"
    )
    view = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {view}>', f"<style>{style}</style>", *boxes, "</svg>\n"]
    )


if __name__ == "__main__":
    PICTURE.write_text(draw())
