"""Lance datasets through pylance: reads and checks deletion files, and deletes rows by position.

Needs the extra ``lance``.
"""

from __future__ import annotations

from puffin_fast.lance.deletions import delete_positions, vectors
from puffin_fast.lance.verify import verify

__all__ = ["delete_positions", "vectors", "verify"]


def __dir__() -> list[str]:
    return sorted(__all__)
