"""Tables kept right: vectors enabled, files verified, orphan files found, tables carried to Iceberg."""

from __future__ import annotations

__all__: list[str] = []
