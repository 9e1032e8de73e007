"""Lance datasets through pylance: reads and checks deletion files, and deletes rows by position.

Needs the extra ``lance``.
"""

from __future__ import annotations

from puffin_fast.lance.checks import verify
from puffin_fast.lance.deletions import delete_positions, vectors

__all__ = ["delete_positions", "vectors", "verify"]


def __dir__() -> list[str]:
    return sorted(__all__)
