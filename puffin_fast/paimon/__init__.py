"""Paimon tables: their deletion vectors, found through a snapshot's index manifest; needs the extra ``paimon``."""

from __future__ import annotations

from puffin_fast.errors import MissingExtraError

try:
    from puffin_fast.paimon.vectors import vectors
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    if package != "fastavro":
        raise
    raise MissingExtraError(package, extra="paimon") from error

__all__ = ["vectors"]
