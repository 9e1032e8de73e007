"""Paimon tables: reads, writes and converts deletion vectors, and accelerates pypaimon's scans.

`vectors` needs the extra ``paimon``; all other functions need the extra ``pypaimon``, which needs an older PyArrow.
"""

from __future__ import annotations

from puffin_fast.errors import MissingExtraError

try:
    from puffin_fast.paimon.accelerate import accelerate
    from puffin_fast.paimon.delete import DeleteResult, convert_vectors, delete, delete_positions
    from puffin_fast.paimon.vectors import vectors
except MissingExtraError as error:  # of `iceberg`, which reads Avro
    raise MissingExtraError(error.package, extra="paimon") from error

__all__ = ["DeleteResult", "accelerate", "convert_vectors", "delete", "delete_positions", "vectors"]
