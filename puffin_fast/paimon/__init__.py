"""Paimon tables: reads, writes and converts deletion vectors, and accelerates pypaimon's scans.

`vectors` and `verify` need the extra ``paimon``; all other functions need the extra ``pypaimon``, which
needs an older PyArrow.
"""

from __future__ import annotations

from puffin_fast._api.packages import imports_of_extra

with imports_of_extra("paimon"):
    from puffin_fast.paimon.checks import verify
    from puffin_fast.paimon.deletions import convert_vectors, delete, delete_positions
    from puffin_fast.paimon.patches import accelerate
    from puffin_fast.paimon.stored_vectors import vectors
    from puffin_fast.verbs.results import DeleteResult

__all__ = ["DeleteResult", "accelerate", "convert_vectors", "delete", "delete_positions", "vectors", "verify"]


def __dir__() -> list[str]:
    return sorted(__all__)
