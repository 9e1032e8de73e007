"""The report on the deletes of a table, whatever its format: its tables, their text, HTML and charts."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.text import Text

from puffin_fast._display.grid import Column, OneLineTable
from puffin_fast._display.html import html_fields, html_page, html_table
from puffin_fast._display.pictures import Chart, draw, draw_intervals, draw_nothing, in_units, name_bars
from puffin_fast._text import printable
from puffin_fast.errors import MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

SHOWN, DRAWN = 20, 15
NOTHING = "no deletes"
HALF_DAY = np.timedelta64(12, "h")

FILES = pa.schema(
    [
        ("data_file", pa.string()),
        ("rows", pa.int64()),
        ("deleted", pa.int64()),
        ("share", pa.float64()),
        ("n_bytes", pa.int64()),
        ("wasted_bytes", pa.int64()),
        ("vectors", pa.int64()),
        ("position_delete_files", pa.int64()),
        ("equality_delete_files", pa.int64()),
        ("advice", pa.string()),
    ]
)
"""Columns of `Report.files`."""


PARTITIONS = pa.schema(
    [
        ("partition", pa.string()),
        ("data_files", pa.int64()),
        ("rows", pa.int64()),
        ("deleted", pa.int64()),
        ("share", pa.float64()),
    ]
)
"""Columns of `Report.partitions`."""

SNAPSHOTS = pa.schema(
    [
        ("committed_at", pa.timestamp("ms", "UTC")),
        ("snapshot_id", pa.int64()),
        ("operation", pa.string()),
        ("delete_files", pa.int64()),
        ("position_deletes", pa.int64()),
    ]
)
"""Columns of `Report.snapshots`; `snapshot_id` is uint64 if an id is above 2^63."""

KEY_INDEXES = pa.schema(
    [
        ("columns", pa.string()),
        ("snapshot_id", pa.int64()),
        ("committed_at", pa.timestamp("ms", "UTC")),
        ("snapshots_since", pa.int64()),
        ("segments", pa.int64()),
        ("n_bytes", pa.int64()),
        ("data_files", pa.int64()),
        ("share_of_files", pa.float64()),
        ("rows", pa.int64()),
        ("share_of_rows", pa.float64()),
    ]
)
"""Columns of `Report.key_indexes`; `snapshot_id` is uint64 if an id is above 2^63."""

NDV = pa.schema(
    [
        pa.field("column", pa.string(), nullable=False),
        pa.field("field_id", pa.int32(), nullable=False),
        pa.field("ndv", pa.int64(), nullable=False),
        pa.field("lower", pa.float64(), nullable=False),
        pa.field("upper", pa.float64(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("is_upper_bound", pa.bool_(), nullable=False),
        pa.field("writer", pa.string(), nullable=False),
    ]
)
"""Columns of `Report.ndv`."""

_SHOWN_NDV = pa.schema(
    [
        ("column", pa.string()),
        ("ndv", pa.int64()),
        ("lower", pa.int64()),
        ("upper", pa.int64()),
        ("is_upper_bound", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Report:
    """The cost of a table's deletes; created by `report`. Rich and notebooks show it as tables.

    Attributes:
        name: the name of the table.
        files: a row per data file with deletes, sorted by descending ``wasted_bytes``: ``data_file`` string;
            ``rows``, ``deleted`` (by position, as far as the manifests state it), ``n_bytes`` of the file,
            ``wasted_bytes`` (n_bytes times share), the numbers of ``vectors``, ``position_delete_files`` and
            ``equality_delete_files`` that may apply to it, all int64; ``share`` double; ``advice`` string:
            ``repair``, ``convert``, ``rewrite`` or empty.
        totals: counts of the whole table: data files, rows, deleted rows, bytes, Puffin files, and so on.
        advice: what to do for the table as a whole, one sentence each.
        ndv: the table that `puffin_fast.iceberg.ndv` returns: a row per column with NDV statistics.
        partitions: a row per partition with data files, sorted by descending ``deleted``: ``partition`` string, empty
            without partition fields; ``data_files``, ``rows``, ``deleted`` int64; ``share`` double.
        snapshots: a row for the snapshot and each of its ancestors that the metadata has, the oldest first:
            ``committed_at`` timestamp[ms, UTC], null outside of the years 1 to 9999; ``snapshot_id`` int64,
            ``operation`` string, and from its summary the totals ``delete_files`` (a deletion vector counts as one)
            and ``position_deletes``, int64.
        key_indexes: a row for each key index that plans use: ``columns`` string, separated by commas; ``snapshot_id``
            and ``committed_at`` of the snapshot that it was built for; ``snapshots_since``, the number of later ones;
            ``segments``, ``n_bytes``; ``data_files`` and ``rows`` that it covers, and their shares of the snapshot's,
            ``share_of_files`` and ``share_of_rows``, double.
    """

    name: str
    files: pa.Table
    totals: dict[str, int | float] = field(default_factory=dict)
    advice: tuple[str, ...] = ()
    ndv: pa.Table = field(default_factory=NDV.empty_table)
    partitions: pa.Table = field(default_factory=PARTITIONS.empty_table)
    snapshots: pa.Table = field(default_factory=SNAPSHOTS.empty_table)
    key_indexes: pa.Table = field(default_factory=KEY_INDEXES.empty_table)

    def __repr__(self) -> str:
        advice = "".join(f"\n- {printable(sentence)}" for sentence in self.advice)
        return f"Report({printable(self.name)}: {self._counts()}){advice}"

    def _counts(self) -> str:
        """The totals that are not zero."""
        return ", ".join(
            f"{key.replace('_', ' ')} {_text(value)}" for key, value in self.totals.items() if value
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble((printable(self.name), "bold"), f": {self._counts()}")
        yield from _grid(self.files, "data files with deletes")
        if self._is_partitioned():
            yield from _grid(self.partitions, "partitions")
        yield from _grid(self._ndv_counts(), "columns with NDV statistics")
        yield from _grid(self.key_indexes.drop_columns(["committed_at"]), "key indexes")
        yield from (Text(f"- {printable(sentence)}") for sentence in self.advice)

    def _repr_html_(self) -> str:
        first, *tables = self._html()
        try:
            picture = self._svg()
        except MissingExtraError:  # matplotlib is not installed: no charts
            picture = ""
        return "\n".join([first, picture, *tables])

    def _svg(self) -> str:
        """The charts, as an element of HTML."""
        charts = io.BytesIO()
        draw(charts, self._charts(), dpi=96, format="svg")
        picture = charts.getvalue().decode()
        return picture[picture.index("<svg") :]

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a page with the totals, the advice, the tables and the charts. The page needs no other file.

        Args:
            path: the path of the page; a file of this name is replaced.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        picture, parts = self._svg(), self._html()
        written = f"<p>Written {datetime.now(UTC).isoformat(' ', 'seconds')}.</p>"
        first = [written, next(parts), picture]
        page = html_page(f"Deletes of {self.name}", [*first, *parts])
        Path(path).write_text(page, encoding="utf-8")

    def _html(self) -> Iterator[str]:
        texts = (*self._snapshot(), *self.advice)
        totals = {name: value for name, value in self.totals.items() if value}
        yield html_fields(self.name, totals) + "".join(f"<p>{escape(text)}</p>" for text in texts)
        tables = [(self.files, "Data files with deletes"), (self._ndv_counts(), "Distinct values")]
        tables.append((self.key_indexes, "Key indexes"))
        if self._is_partitioned():
            tables.insert(1, (self.partitions, "Partitions"))
        for rows, title in tables:
            if rows.num_rows:
                shown = rows.slice(0, SHOWN).to_pylist()
                yield f"<h2>{title}</h2>" + html_table(shown, more=rows.num_rows - len(shown))

    def _snapshot(self) -> Iterator[str]:
        """The snapshot that the numbers are of, as a sentence, if it is known."""
        for row in self.snapshots.slice(max(0, self.snapshots.num_rows - 1)).to_pylist():
            at = row["committed_at"]
            when = "at an unknown time" if at is None else at.isoformat(" ", "seconds")
            yield f"Snapshot {row['snapshot_id']}, committed {when}."

    def picture(self, path: str | os.PathLike[str], *, dpi: int = 120) -> None:
        """Draws charts: data files by deleted share, the data files with the most wasted bytes, deleted rows over the
        snapshots, of a partitioned table the partitions with the most deleted rows, and where the table has NDV
        statistics the distinct values by column, between their bounds.

        Args:
            path: the path of the image; its suffix (png, svg, pdf) selects the format.
            dpi: dots per inch.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        draw(path, self._charts(), dpi=dpi)

    def _charts(self) -> list[Chart]:
        charts: list[Chart] = [self._draw_shares, self._draw_wasted]
        if self.snapshots.num_rows:
            charts.append(self._draw_snapshots)
        if self._is_partitioned():
            charts.append(self._draw_partitions)
        return [*charts, self._draw_ndv] if self.ndv.num_rows else charts

    def _is_partitioned(self) -> bool:
        return any(self.partitions["partition"].to_pylist())

    def _ndv_counts(self) -> pa.Table:
        return pa.table(
            {shown.name: self.ndv[shown.name].cast(shown.type, safe=False) for shown in _SHOWN_NDV}
        )

    def _draw_shares(self, axes: Any) -> None:
        title = f"{printable(self.name)}: data files by deleted rows"
        shares = [share or 0.0 for share in self.files["share"].to_pylist()]
        if not shares:
            draw_nothing(axes, title, NOTHING)
            return
        untouched = int(self.totals["data_files"]) - len(shares)
        counts = Counter(min(9, int(share * 10)) for share in shares)
        axes.bar([at * 10 + 5 for at in range(10)], [counts[at] for at in range(10)], width=9)
        axes.bar([-15], [untouched], width=9, color="0.75")
        axes.set_xticks([-15, *range(0, 101, 20)], ["no\ndeletes", *range(0, 101, 20)])
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_title(title)
        axes.set_xlabel("% of the file's rows deleted")
        axes.set_ylabel("data files")

    def _draw_wasted(self, axes: Any) -> None:
        title = "bytes read for nothing"
        if not self.files.num_rows:
            draw_nothing(axes, title, NOTHING)
            return
        worst = self.files.slice(0, DRAWN).to_pylist()[::-1]
        names = [printable(row["data_file"].rpartition("/")[2]) for row in worst]
        places = range(len(worst))
        axes.barh(places, [row["n_bytes"] for row in worst], color="0.85", label="file")
        axes.barh(places, [row["wasted_bytes"] for row in worst], label="of deleted rows")
        name_bars(axes, names)
        in_units(axes.xaxis, "B")
        axes.set_title(title)
        axes.legend(fontsize=7)

    def _draw_snapshots(self, axes: Any) -> None:
        title = "rows deleted by position, over the snapshots"
        rows = self.snapshots.select(["committed_at", "position_deletes"]).drop_null()
        if not any(rows["position_deletes"].to_pylist()):
            draw_nothing(axes, title, NOTHING)
            return
        times = rows["committed_at"].to_numpy()
        axes.step(
            times, rows["position_deletes"].to_numpy(), where="post", marker="." if len(times) < 50 else ""
        )
        axes.tick_params(axis="x", labelrotation=30, labelsize=7)
        axes.set_ylim(bottom=0)
        if len(times) == 1:  # matplotlib would show four years
            axes.set_xlim(times[0] - HALF_DAY, times[0] + HALF_DAY)
        axes.set_title(title)

    def _draw_partitions(self, axes: Any) -> None:
        rows = self.partitions.slice(0, DRAWN).to_pylist()[::-1]
        places = range(len(rows))
        axes.barh(places, [100 * row["share"] for row in rows])
        name_bars(axes, [printable(row["partition"]) for row in rows])
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of the partition's rows deleted")
        axes.set_title("partitions with the most deleted rows")

    def _draw_ndv(self, axes: Any) -> None:
        rows = sorted(self.ndv.to_pylist(), key=lambda row: -row["ndv"])[:DRAWN]
        names = [f"{printable(row['column'])}{' (at most)' if row['is_upper_bound'] else ''}" for row in rows]
        draw_intervals(axes, names, [(row["lower"], row["ndv"], row["upper"]) for row in rows])
        axes.set_xscale("symlog")
        in_units(axes.xaxis)
        axes.set_title("distinct values, with their bounds")


def _grid(rows: pa.Table, what: str) -> Iterator[OneLineTable | str]:
    if not rows.num_rows:
        return
    shown = {name: rows[name].slice(0, SHOWN).to_pylist() for name in rows.schema.names}
    if paths := shown.get("data_file"):
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(min(paths), max(paths), strict=False))
        folder = "".join(c for c, _ in shared).rpartition("/")[0]
        shown["data_file"] = [path.removeprefix(f"{folder}/") for path in paths]
    yield OneLineTable(
        [
            Column([name], [Text(_text(value)) for value in values], not isinstance(values[0], str))
            for name, values in shown.items()
            if any(values)
        ]
    )
    if (more := rows.num_rows - SHOWN) > 0:
        yield f"… and {more:,} more {what}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))
