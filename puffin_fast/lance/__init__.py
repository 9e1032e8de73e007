"""Lance datasets through pylance: their deletion files, and rows deleted by position; needs the extra ``lance``."""

from __future__ import annotations

from puffin_fast.lance.deletions import delete_positions, vectors

__all__ = ["delete_positions", "vectors"]
