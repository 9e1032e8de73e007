"""Keys: bound to a schema, hashed, found in columns."""

from __future__ import annotations
