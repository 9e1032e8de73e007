"""The ways in which keys are matched, and what the results of deletes by keys have in common."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from puffin_fast.iceberg import DeleteResult


JOINED, SENT = 0, 1 << 20
"""Values of `broadcast_keys` with which keys are joined by Spark, or broadcast."""


def facts(result: DeleteResult) -> dict[str, Any]:
    """Returns the fields of a result that do not depend on the distribution of the work."""
    hidden = ("snapshot_id", "seconds", "n_bytes", "explanation")
    return {name: value for name, value in asdict(result).items() if name not in hidden}
