"""Maintenance: enables deletion vectors, verifies and rewrites files, lists orphan files, converts to and from
Iceberg."""

from __future__ import annotations
