"""Draws charts with matplotlib, which is imported when it is needed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import IO, Any

from puffin_fast._api.packages import import_optional
from puffin_fast._text import middle_cut

CHART_INCHES = (5.5, 4)
NAME_CHARACTERS = 32
"""Maximum length of the label of a bar: of a longer name, its begin and its end are shown."""

COLUMNS = 3
"""Most charts side by side; more go below."""

_PLAIN_TEXT: Any = {"text.parse_math": False, "text.usetex": False}
"""Names and values of a user may have dollar signs, between which matplotlib reads TeX."""

Chart = Callable[[Any], None]
"""Draws into matplotlib's axes."""


def draw(
    target: str | os.PathLike[str] | IO[bytes],
    charts: Sequence[Chart],
    *,
    dpi: int,
    format: str | None = None,
) -> None:
    """Writes a picture with charts side by side.

    Args:
        target: path of the image, or a file that is open for writing.
        charts: from left to right, then downwards.
        dpi: dots per inch.
        format: png, svg or pdf; by default the suffix of the path.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    Figure = import_optional("matplotlib.figure", extra="plot").Figure  # noqa: N806
    import matplotlib

    width, height = CHART_INCHES
    columns = min(len(charts), COLUMNS)
    rows = -(-len(charts) // columns)
    with warnings.catch_warnings(), matplotlib.rc_context(_PLAIN_TEXT):
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a box is drawn
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        for chart, axes in zip(charts, places, strict=False):
            chart(axes)
        for axes in places[len(charts) :]:
            axes.set_axis_off()
        figure.savefig(target, dpi=dpi, format=format)


def name_bars(axes: Any, names: Sequence[str]) -> None:
    """Labels bars at 0, 1 and so on, which are below each other, with printable names."""
    axes.set_yticks(range(len(names)), [middle_cut(name, NAME_CHARACTERS) for name in names], fontsize=7)


def draw_nothing(axes: Any, title: str, words: str) -> None:
    """Writes words in place of a chart that would have no data."""
    axes.set_axis_off()
    axes.set_title(title)
    axes.text(0.5, 0.5, words, ha="center", va="center", color="0.4", transform=axes.transAxes)


def in_units(axis: Any, unit: str = "") -> None:
    """Labels an axis with numbers of a unit: kB, MB, GB."""
    axis.set_major_formatter(import_optional("matplotlib.ticker", extra="plot").EngFormatter(unit=unit))


def draw_intervals(axes: Any, names: Sequence[str], intervals: Sequence[tuple[float, float, float]]) -> None:
    """Draws a bar for each (lower, estimate, upper), with its bounds, from top to bottom."""
    places = range(len(names))
    estimates = [estimate for _, estimate, _ in intervals]
    below = [max(0.0, estimate - lower) for lower, estimate, _ in intervals]
    above = [max(0.0, upper - estimate) for _, estimate, upper in intervals]
    axes.barh(places, estimates, xerr=[below, above], color="0.75", capsize=2)
    name_bars(axes, names)
    axes.invert_yaxis()
    axes.margins(x=0.2)  # space for the numbers beside the bars
    for place, (_, estimate, upper) in enumerate(intervals):
        axes.annotate(
            f"{estimate:,.0f}", (upper, place), (4, 0), textcoords="offset points", va="center", fontsize=7
        )
