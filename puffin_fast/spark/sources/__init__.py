"""Spark's data sources of this package: blobs of Puffin files, and streams of changes."""

from __future__ import annotations
