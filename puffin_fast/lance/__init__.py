"""Lance datasets through pylance: reads and checks deletion files, and deletes rows by position.

Needs the extra ``lance``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puffin_fast._api.keywords import no_attribute
from puffin_fast.lance.checks import verify
from puffin_fast.lance.deletions import delete_positions, vectors

__all__ = ["delete_positions", "vectors", "verify"]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # type checkers see the names only

    def __getattr__(name: str) -> Any:
        raise no_attribute(__name__, name, __all__)
