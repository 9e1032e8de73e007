"""Changes that are given to an upsert, as rows with a mark of deletes and an order.

```
_change_ordinal or _commit_version    order of commits; within one, inserts and after-images come last
neither                               `_change_type`: one commit; other columns of kinds: the order of the rows
```
A preimage deletes its key: its after-image may have another one, and follows if it has the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.errors import InvalidInputError, NotFoundError

KINDS = {
    **dict.fromkeys(("insert", "update_postimage", "update_after", "+i", "+u", "c", "r", "u", "i"), True),
    **dict.fromkeys(("delete", "update_preimage", "update_before", "-d", "-u", "d"), False),
}
"""Whether the row of a change is in the table after it: words of Delta and Iceberg, Paimon, Debezium and Hudi."""

CHANGE_TYPE = "_change_type"
"""The column of kinds of the changes of one commit or more."""

_COLUMNS = (CHANGE_TYPE, "rowkind", "__op", "op")
"""The columns of kinds, in the order in which they are looked for."""

_ORDERS = ("_change_ordinal", "_commit_version")
_NO_DATA = {*_ORDERS, "_commit_snapshot_id", "_commit_timestamp", "_row_id", "_file", "_pos"}
"""Columns of changes that are not columns of a table."""

DELETES, ORDER = "_change_deletes", "_change_order"
"""The columns of `with_deletes_and_order`."""


def check_changes(
    changes: bool | str, delete_column: str | None = None, order_column: str | None = None
) -> None:
    """Checks the argument `changes` of an upsert.

    Raises:
        InvalidInputError: it is neither a flag nor a name, or is given with other columns of a change feed.
    """
    if not isinstance(changes, (bool, str)):
        raise InvalidInputError(
            f"changes: expected True, False or the name of a column, found {type(changes).__name__}"
        )
    if changes is not False and (delete_column is not None or order_column is not None):
        raise InvalidInputError(
            "changes: expected neither delete_column nor order_column with it, found "
            f"{delete_column or order_column}"
        )


def kinds_and_order(names: Sequence[str], column: str | bool) -> tuple[str, str | None]:
    """Returns the names of the column of kinds, and of the one that orders commits, if there is one.

    Args:
        names: the names of the columns of changes.
        column: the name of the column of kinds; True for the first of the usual ones.

    Raises:
        InvalidInputError, NotFoundError: there is no such column.
    """
    if column is True:
        found = [name for name in _COLUMNS if name in names]
        if not found:
            raise InvalidInputError(
                f"data: changes=True: expected a column {', '.join(_COLUMNS)}, found {', '.join(names)}; changes= "
                "also takes its name"
            )
        column = found[0]
    elif column not in names:
        raise NotFoundError(f"changes: no column {column} in data, found {', '.join(names)}")
    return str(column), next((name for name in _ORDERS if name in names), None)


def with_deletes_and_order(rows: pa.RecordBatchReader, column: str | bool) -> pa.RecordBatchReader:
    """Returns changes with the boolean column `DELETES` and the int64 column `ORDER`, without columns that are no data.

    Args:
        rows: the changes.
        column: the name of the column of kinds; True for the first of the usual ones.

    Raises:
        InvalidInputError: there is no such column, or, while it is read, a kind is unknown or null.
    """
    names = rows.schema.names
    kinds, order = kinds_and_order(names, column)
    kept = [at for at, name in enumerate(names) if name != kinds and name not in _NO_DATA]
    schema = pa.schema(
        [*(rows.schema.field(at) for at in kept), pa.field(DELETES, pa.bool_()), pa.field(ORDER, pa.int64())]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        n_before = 0
        for batch in rows:
            remains = _remains(batch.column(names.index(kinds)), kinds)
            if order is not None:
                commits = batch.column(names.index(order))
                if commits.null_count:
                    raise InvalidInputError(
                        f"data: column {order}: expected no null, found {commits.null_count}"
                    )
                ranks = 2 * commits.cast(pa.int64()).to_numpy() + remains
            elif kinds == CHANGE_TYPE:
                ranks = remains.astype(np.int64)
            else:
                ranks = np.arange(n_before, n_before + batch.num_rows)
            n_before += batch.num_rows
            columns = [*(batch.column(at) for at in kept), pa.array(~remains), pa.array(ranks)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _remains(kinds: pa.Array, name: str) -> npt.NDArray[np.bool_]:
    """Whether the row of each change is in the table after it."""
    try:
        found = pc.index_in(pc.utf8_lower(kinds.cast(pa.string())), pa.array([*KINDS]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"data: column {name}: expected kinds of change, found {kinds.type}"
        ) from error
    if found.null_count:
        wrong = kinds.filter(found.is_null())[0].as_py()
        raise InvalidInputError(f"data: column {name}: expected one of {', '.join(KINDS)}, found {wrong!r}")
    remains: npt.NDArray[np.bool_] = np.array([*KINDS.values()])[found.to_numpy()]
    return remains
