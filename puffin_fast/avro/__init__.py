"""Avro files: blocks, schemas, columns. Knows no tables."""

from __future__ import annotations
