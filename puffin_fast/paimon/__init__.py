"""Paimon tables: deletion vectors read, written and converted; pypaimon's own scans accelerated.

`vectors` needs the extra ``paimon``, everything else the extra ``pypaimon``, whose PyArrow is older.
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
