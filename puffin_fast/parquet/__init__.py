"""Parquet files: footers, layouts, pages, codecs. Knows no tables."""

from __future__ import annotations
