"""Reports what the deletes of a table cost."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from puffin_fast._api.arguments import check_share
from puffin_fast._api.keywords import public
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED
from puffin_fast.tables.opening import open_table
from puffin_fast.verbs.table_report import Report

if TYPE_CHECKING:
    from puffin_fast.tables.opening import TableLike


@public
def report(
    table: TableLike,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    share: float = MIN_DELETED,
) -> Report:
    """Reports what deletes cost the data files of a table, from its manifests or log alone.

    Args:
        table: as `scan`.
        snapshot_id, branch, tag, as_of: the snapshot or version, as in `scan`.
        share: deleted share of a data file's rows at which a rewrite is advised, as `min_deleted` of
            `rewrite_data_files`.

    Returns:
        The report; of an Iceberg table also with its NDV statistics, key indexes and partitions.

    Raises:
        InvalidInputError: the share is not between 0 and 1.
        NotFoundError, UnsupportedError, CorruptDataError: as `deletes`.

    Examples:
        >>> result = pf.delete(table, "customer < 5")  # Iceberg
        >>> for advice in pf.report(table).advice:
        ...     print(advice.partition(":")[0])
        rewrite_data_files
        >>> result = pf.delete(path, "id < 50")  # Delta
        >>> pf.report(path).totals["deleted"]
        50
    """
    found = open_table(table)
    selected = {"snapshot_id": snapshot_id, "branch": branch, "tag": tag, "as_of": as_of}
    found.need("report", **selected)
    check_share("share", share)
    return found.costs(share, **selected)
