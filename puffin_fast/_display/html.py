"""HTML for notebooks and reports: tables without scripts or styles from elsewhere, all texts escaped."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from puffin_fast._text import counted

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 75em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px }
th, td { border-bottom: 1px solid #ddd; padding: .25em .7em; text-align: left }
td { overflow-wrap: anywhere }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto }
"""

STRIP_WIDTH, STRIP_HEIGHT = 512, 16


SHOWN = 20
"""Number of rows of a table that are shown inside of another one."""


class Note(str):
    """A text that is shown instead of the value of a field."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class HtmlFields:
    """A dataclass whose `repr`, and table in notebooks, has its fields without those that are 0, None or empty."""

    def __init_subclass__(cls) -> None:
        cls.__repr__ = HtmlFields.__repr__  # type: ignore[method-assign]  # a dataclass keeps what the class has

    def _shown(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        values = {field.name: getattr(self, field.name) for field in fields if field.repr}
        return {name: value for name, value in values.items() if _says(value)}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in self._shown().items())
        return f"{type(self).__name__}({shown})"

    def _repr_html_(self) -> str:
        return html_fields(type(self).__name__, self._shown())


def _says(value: object) -> bool:
    """Whether a value is not 0, False, None or empty, nor a result of a step that did nothing."""
    if isinstance(value, HtmlFields):
        fields = dataclasses.fields(value)  # type: ignore[arg-type]
        names = {field.name for field in fields if field.repr} - {"seconds", "dry_run"}
        return any(_says(getattr(value, name)) for name in names)
    return bool(value.num_rows if hasattr(value, "num_rows") else value)


def _short(value: object) -> str:
    """The text of a value: a float with four digits, an Arrow table as its number of rows."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if hasattr(value, "num_rows"):
        return f"<{counted(value.num_rows, 'row')}>"
    return repr(value)


def cell(value: object) -> str:
    """Returns a value as HTML: numbers with separators, nothing for None, tables for results and Arrow tables."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, HtmlFields):
        return value._repr_html_()
    if isinstance(value, Mapping):
        return "<br>".join(f"{cell(key)}: {cell(item)}" for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return ", ".join(f"{name} {cell(item)}" for name, item in value._asdict().items())
    if isinstance(value, tuple | list):
        return "<br>".join(map(cell, value))
    if hasattr(value, "to_pylist"):  # an Arrow table; this module does not import PyArrow
        table: Any = value
        rows = table.slice(0, SHOWN).to_pylist()
        return html_table(rows, more=table.num_rows - len(rows)) if rows else "none"
    return escape(str(value))


def _named_cell(name: str, value: object) -> str:
    """As `cell`; ids are not grouped by thousands, and shares are percents."""
    if name == "id" or name.endswith("_id"):
        return str(value)
    return f"{value:.1%}" if name == "share" and isinstance(value, float) else cell(value)


def html_fields(title: str, fields: Mapping[str, object]) -> str:
    """Returns a table with a row for each field."""
    rows = (
        f"<tr><th>{escape(name.replace('_', ' '))}</th><td>{_named_cell(name, value)}</td></tr>"
        for name, value in fields.items()
    )
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"


def html_table(rows: Sequence[Mapping[str, Any]], *, more: int = 0) -> str:
    """Returns a table of rows with the same names.

    Args:
        rows: at least one.
        more: how many rows are left out, which a last row says.
    """
    numeric = {name for name, value in rows[0].items() if isinstance(value, int | float)}

    def line(tag: str, values: Iterable[tuple[str, str]]) -> str:
        cells = (
            f"<{tag}{' class=number' if name in numeric else ''}>{text}</{tag}>" for name, text in values
        )
        return f"<tr>{''.join(cells)}</tr>"

    head = line("th", ((name, escape(name.replace("_", " "))) for name in rows[0]))
    body = "".join(
        line("td", ((name, _named_cell(name, value)) for name, value in row.items())) for row in rows
    )
    left = f"<tr><td colspan={len(rows[0])}>… and {more:,} more</td></tr>" if more else ""
    return f"<table>{head}{body}{left}</table>"


def html_strip(shares: Sequence[float]) -> str:
    """Returns a picture of shares from 0 to 1 beside each other, the darker the higher."""
    width = STRIP_WIDTH / len(shares)
    bars = (
        f'<rect x="{at * width:.1f}" width="{width:.1f}" height="{STRIP_HEIGHT}" fill-opacity="{share:.3f}"/>'
        for at, share in enumerate(shares)
        if share
    )
    return (
        f'<svg width="{STRIP_WIDTH}" height="{STRIP_HEIGHT}" fill="#3949ab" style="outline: 1px solid #bbb">'
        f"{''.join(bars)}</svg>"
    )


def html_page(title: str, parts: Iterable[str]) -> str:
    """Returns a page that needs no other file."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )
