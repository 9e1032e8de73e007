"""Lance datasets through pylance: reads and checks deletion files, and deletes rows by position.

Needs the extra ``lance``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffin_fast._api.lazy_names import lazy_names
from puffin_fast.lance.deletions import delete_positions, vectors

if TYPE_CHECKING:
    from puffin_fast.tables.verify import verify

__all__ = ["delete_positions", "vectors", "verify"]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # type checkers see the names only
    __getattr__ = lazy_names(__name__, {"verify": "tables.verify"}, extra="lance")
