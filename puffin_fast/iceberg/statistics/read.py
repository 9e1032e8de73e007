"""Reads committed NDV statistics: numbers of distinct values of columns, and those that two columns share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._api.arguments import check_flags
from puffin_fast._display.html import HtmlFields
from puffin_fast._display.pictures import draw, draw_intervals
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.catalogs.working_table import with_history
from puffin_fast.iceberg.compat.snapshot_rows import table_of_snapshots
from puffin_fast.iceberg.plan.statistics_files import files_of_history
from puffin_fast.iceberg.statistics.collect import select
from puffin_fast.iceberg.statistics.columns import SketchedColumn
from puffin_fast.iceberg.statistics.stored import (
    OWN_WRITER,
    StoredSketch,
    hashed_type,
    load_sketches,
    named_fields,
)
from puffin_fast.theta import Interval
from puffin_fast.verbs.table_report import NDV

if TYPE_CHECKING:
    from pyiceberg.table import Table

_BYTES_ALIKE = {"string": "bytes", "binary": "bytes"}


def ndv(
    table: Table,
    columns: Sequence[str] | None = None,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    n_std_dev: int = 2,
    case_sensitive: bool = True,
) -> pa.Table:
    """Returns the numbers of distinct values of a snapshot's columns, from the nearest statistics in its history.

    Args:
        table: a PyIceberg table.
        columns: names, as in `collect_ndv`; by default all columns with statistics.
        snapshot_id, branch, tag, as_of: the snapshot, as in `scan`; the current one by default.
        n_std_dev: the number of standard deviations of the bounds: 1, 2 or 3 for 68%, 95.4% or 99.7%.
        case_sensitive: whether column names are compared with case.

    Returns:
        An Arrow table with one row for each column, in the order of the schema or of `columns`: ``snapshot_id`` is the
        snapshot whose rows were counted. A count that ``is_upper_bound`` includes values of deleted rows.

    Raises:
        NotFoundError: a column, snapshot, reference or statistics file does not exist, the table has no snapshots, or a
            named column has no statistics.
        CorruptDataError, UnsupportedError: a statistics file cannot be read; `collect_ndv` computes it again.
        InvalidInputError: an argument is invalid.

    Examples:
        >>> result = pf.iceberg.collect_ndv(table)
        >>> pf.iceberg.ndv(table, ["customer"]).select(["column", "ndv"]).to_pylist()
        [{'column': 'customer', 'ndv': 10}]
    """
    check_flags(case_sensitive=case_sensitive)
    rows = []
    selected = {"snapshot_id": snapshot_id, "branch": branch, "tag": tag, "as_of": as_of}
    for column, stored in _stored(table, columns, case_sensitive=case_sensitive, **selected):
        lower, estimate, upper = stored.sketch.bounds(n_std_dev)
        rows.append(
            {
                "column": column.name,
                "field_id": column.field_id,
                "ndv": int(estimate),
                "lower": lower,
                "upper": upper,
                "snapshot_id": stored.snapshot_id,
                "is_upper_bound": stored.upper_bound,
                "writer": stored.writer,
            }
        )
    return table_of_snapshots(rows, NDV)


def _stored(
    table: Table, names: Sequence[str] | None, **selected: Any
) -> list[tuple[SketchedColumn, StoredSketch]]:
    selection = select(table, names, repeated=True, **selected)
    missing = {column.field_id: column for column in selection.columns}
    chosen, found = dict(missing), {}
    metadata = with_history(selection.table, selection.snapshot)
    for _, statistics in files_of_history(metadata, selection.snapshot):
        here = named_fields(statistics) & missing.keys()
        if here:
            found.update(load_sketches(table.io, statistics, here))
            missing = {field_id: column for field_id, column in missing.items() if field_id not in found}
    if missing and names is not None:
        lacking = ", ".join(column.name for column in missing.values())
        raise NotFoundError(
            f"{'.'.join(table.name())}: no NDV statistics of {lacking} in the history of snapshot "
            f"{selection.snapshot.snapshot_id}; collect_ndv makes them"
        )
    return [(column, found[field_id]) for field_id, column in chosen.items() if field_id in found]


@dataclass(frozen=True)
class NdvOverlap(HtmlFields):
    """The numbers of distinct values of two columns and of those that they share.

    Attributes:
        left: number of distinct values of the first column.
        right: that of the second column.
        both: number of values that both columns have, for which an equality join finds rows.
        either: number of values that at least one column has.
        jaccard: both / either.
        is_upper_bound: whether one of the counts includes values of deleted rows.
    """

    left: Interval
    right: Interval
    both: Interval
    either: Interval
    jaccard: Interval
    is_upper_bound: bool

    def picture(self, path: str | os.PathLike[str], *, dpi: int = 120) -> None:
        """Draws the numbers of values with their bounds.

        Args:
            path: the path of the image; its suffix (png, svg, pdf) selects the format.
            dpi: dots per inch.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """

        def chart(axes: Any) -> None:
            names = ("left", "right", "both", "either")
            draw_intervals(axes, names, [getattr(self, name) for name in names])
            at_most = "at most, " if self.is_upper_bound else ""
            axes.set_title(f"distinct values ({at_most}Jaccard {self.jaccard.estimate:.1%})")

        draw(path, [chart], dpi=dpi)


def ndv_overlap(left: tuple[Table, str], right: tuple[Table, str], *, n_std_dev: int = 2) -> NdvOverlap:
    """Returns how many distinct values two columns share by their statistics; reads no rows.

    Args:
        left: a table and the name of a column; the current snapshot is used.
        right: another table and column, or another column of the same table.
        n_std_dev: the number of standard deviations of the bounds, as in `ndv`.

    Raises:
        InvalidInputError: the values of the columns are hashed in different ways: other types, or uuid columns of
            different writers.
        NotFoundError, CorruptDataError, UnsupportedError: as `ndv`.

    Examples:
        >>> result = pf.iceberg.collect_ndv(table)
        >>> pf.iceberg.ndv_overlap((table, "id"), (table, "customer")).both
        Interval(lower=10.0, estimate=10.0, upper=10.0)
    """
    for side, given in (("left", left), ("right", right)):
        if not isinstance(given, Sequence) or len(given) != 2 or not isinstance(given[1], str):
            raise InvalidInputError(
                f"{side}: expected a table and the name of a column, found {shown_argument(given)}"
            )
    (a, a_type, a_stored), (b, b_type, b_stored) = (_hashed(table, name) for table, name in (left, right))
    if _hashed_as(a_type, a_stored) != _hashed_as(b_type, b_stored):
        raise InvalidInputError(
            f"columns {a!r} ({a_type}, by {a_stored.writer}) and {b!r} ({b_type}, by {b_stored.writer}) "
            "are not hashed alike: their sketches have no values in common"
        )
    first, second = a_stored.sketch, b_stored.sketch
    return NdvOverlap(
        first.bounds(n_std_dev),
        second.bounds(n_std_dev),
        (first & second).bounds(n_std_dev),
        (first | second).bounds(n_std_dev),
        first.jaccard(second, n_std_dev),
        a_stored.upper_bound or b_stored.upper_bound,
    )


def _hashed(table: Table, name: str) -> tuple[str, str, StoredSketch]:
    """Returns the name of a column, the type in which its values were hashed, and the sketch."""
    ((column, stored),) = _stored(table, [name])
    kind = hashed_type(table.metadata, stored)
    if kind is None:
        raise InvalidInputError(
            f"column {name!r}: its type in snapshot {stored.snapshot_id}, whose values were counted, is not known; "
            "collect_ndv counts them anew"
        )
    return column.name, kind, stored


def _hashed_as(kind: str, stored: StoredSketch) -> tuple[str, bool]:
    if kind.startswith("decimal"):  # the unscaled value, whatever the precision
        kind = f"decimal scale {kind.rpartition(',')[2]}"
    return _BYTES_ALIKE.get(kind, kind), kind == "uuid" and not stored.writer.startswith(OWN_WRITER)
