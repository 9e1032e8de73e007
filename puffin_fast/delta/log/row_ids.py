"""Assigns row ids to added files (protocol, "Row Tracking"): the id of a row is `baseRowId` plus its position.

The domain `delta.rowTracking` has the highest assigned id. Each commit assigns higher ids than the one before it, so
ids are assigned when the version of the commit is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from puffin_fast.delta.log.action_types import RowIds, as_json, parse

DOMAIN = "delta.rowTracking"
MATERIALIZED = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
"""The properties with the physical names of the columns of row ids and row commit versions in rewritten files."""


def highest_row_id(action: Mapping[str, Any] | None, root: str) -> int:
    """Returns the highest row id in a `domainMetadata` action; -1 if there is none.

    Raises:
        CorruptDataError: there is no such number.
    """
    if action is None or action.get("removed"):
        return -1
    found = parse(action.get("configuration") or "", f"configuration of the domain {DOMAIN}", root, RowIds)
    return int(found["rowIdHighWaterMark"])


def with_row_ids(actions: Sequence[dict[str, Any]], highest: int, version: int) -> list[dict[str, Any]]:
    """Assigns row ids to `add` actions without them, and adds an action with the highest id.

    Args:
        actions: the actions of a commit.
        highest: the highest row id that was assigned before.
    """
    found = list(actions)
    before = highest
    for at, action in enumerate(found):
        add = action.get("add")
        if add is not None and add.get("baseRowId") is None:
            own = {"baseRowId": highest + 1, "defaultRowCommitVersion": version}
            found[at] = {"add": {**add, **own}}
            highest += json.loads(add["stats"])["numRecords"]
    if highest > before:
        configuration = as_json({"rowIdHighWaterMark": highest})
        domain = {"domain": DOMAIN, "configuration": configuration, "removed": False}
        found.append({"domainMetadata": domain})
    return found
