"""A table is a list of rows with a history: random operations on tables of every kind, compared with a list after each.

`machine` has the model, `iceberg`, `delta` and `sql` the operations of formats and engines.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from puffin_fast.iceberg.index import lookup
from puffin_fast.key_index import making
from tests.kit.histories import delta, iceberg, sql
from tests.kit.histories.delta import DeltaHistory
from tests.kit.histories.iceberg import IcebergHistory
from tests.kit.histories.machine import History, Operation, plan, program, shortest

__all__ = ["KINDS", "follow", "history_in", "replay"]

KINDS: dict[str, tuple[type[History], Callable[..., History]]] = {
    **{kind: (IcebergHistory, make) for kind, make in iceberg.KINDS.items()},
    **{kind: (DeltaHistory, make) for kind, make in delta.KINDS.items()},
    **sql.KINDS,
}
"""The kinds of tables, with the operations of each and what makes a table."""


def replay(kind: str, seed: int, operations: Iterable[tuple[str, int]], **engines: Any) -> None:
    """Runs operations on a new table, and checks it after each.

    Args:
        kind: of `KINDS`.
        seed: of the table.
        operations: names, and the seed of each.
        engines: sessions and catalogs, as the kind needs them.
    """
    said: list[str] = []
    try:
        _replay(kind, seed, [Operation(*one) for one in operations], said, engines)
    finally:
        print("\n".join(said))


@contextmanager
def _small_candidates() -> Iterator[None]:
    """Indexes narrow small data files, too, and the hashes of their keys collide."""
    with (
        patch.object(lookup, "ROWS_PER_CANDIDATE", 0),
        patch.object(making, "REMAINDER_BITS", 1),
        patch.object(making, "_LEAST_HASH_BITS", 0),
    ):
        yield


def _replay(
    kind: str, seed: int, operations: Sequence[Operation], said: list[str], engines: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_files, _small_candidates():
        history = KINDS[kind][1](Path(folder), seed, **engines)
        open_files.callback(lambda: history.close())
        history.said = said
        for one in operations:
            history.run(one)
        history.finish()


@contextmanager
def history_in(folder: Path, kind: str, seed: int, n: int) -> Iterator[History]:
    """A table after random operations.

    Args:
        folder: where it is.
        kind: of `KINDS`, without engines.
        seed: of the table and of the operations.
        n: how many.
    """
    history, operations = KINDS[kind][1](folder, seed), plan(KINDS[kind][0], seed, n)
    try:
        for one in operations:
            history.run(one)
        yield history
    except Exception as error:
        error.add_note(program(kind, seed, operations, history.said, ()))
        raise
    finally:
        history.close()


def follow(kind: str, seed: int, n: int, budget_s: float = 60, **engines: Any) -> list[str]:
    """Runs random operations; a failure has a note with the shortest program found that repeats it.

    Args:
        kind: of `KINDS`.
        seed: of the table and of the operations.
        n: how many.
        budget_s: how long a failure may be shortened.
        engines: sessions and catalogs, as the kind needs them.

    Returns:
        What each operation did.
    """

    def run(operations: Sequence[Operation]) -> Exception | None:
        said.clear()
        try:
            _replay(kind, seed, operations, said, engines)
        except Exception as error:
            return error
        return None

    said = list[str]()
    operations = plan(KINDS[kind][0], seed, n)
    error = run(operations)
    if error is not None:
        operations = operations[: len(said)]
        operations = shortest(run, operations, error, budget_s)
        run(operations)
        error.add_note(program(kind, seed, operations, said, engines))
        raise error
    return said
