"""Lance datasets through pylance: reads deletion files, and deletes rows by position. Needs the extra ``lance``."""

from __future__ import annotations

from puffin_fast.lance.deletions import delete_positions, vectors

__all__ = ["delete_positions", "vectors"]


def __dir__() -> list[str]:
    return sorted(__all__)
