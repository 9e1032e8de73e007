"""Paimon tables: reads, writes and converts deletion vectors, and accelerates pypaimon's scans.

`vectors` and `verify` need the extra ``paimon``; all other functions need the extra ``pypaimon``, which
needs an older PyArrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffin_fast._api.lazy_names import lazy_names
from puffin_fast._api.packages import imports_of_extra

with imports_of_extra("paimon"):
    from puffin_fast.paimon.deletions import convert_vectors, delete, delete_positions
    from puffin_fast.paimon.patches import accelerate
    from puffin_fast.paimon.stored_vectors import vectors
    from puffin_fast.verbs.results import DeleteResult

if TYPE_CHECKING:
    from puffin_fast.tables.verify import verify

__all__ = ["DeleteResult", "accelerate", "convert_vectors", "delete", "delete_positions", "vectors", "verify"]

if not TYPE_CHECKING:  # type checkers see the name above, and no others
    __getattr__ = lazy_names(__name__, {"verify": "tables.verify"}, extra="paimon")


def __dir__() -> list[str]:
    return sorted(__all__)
