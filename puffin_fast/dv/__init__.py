"""Codecs of deletion vectors, one per file: `encode(bitmap)` and `decode(blob)`."""

from typing import TYPE_CHECKING, Any

from puffin_fast.dv import delta, iceberg, lance, mumbling, paimon
from puffin_fast.dv.conversion import convert

__all__ = ["convert", "delta", "iceberg", "lance", "mumbling", "paimon"]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # type checkers see the names above, and no others

    def __getattr__(name: str) -> Any:
        from puffin_fast._api.keywords import no_attribute

        raise no_attribute(__name__, name, __all__)
