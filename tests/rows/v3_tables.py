"""Tables, readers and cases that several tests share with `test_v3_types`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.kit.tables import path_of

if TYPE_CHECKING:
    pass


VARIANT = pa.struct(
    [pa.field("metadata", pa.large_binary(), False), pa.field("value", pa.large_binary(), False)]
)


ONE = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"}


def rewritten(location: str, change: Any) -> dict[str, Any]:
    """Changes a metadata file in place; returns its document."""
    path = path_of(location)
    document: dict[str, Any] = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return document
