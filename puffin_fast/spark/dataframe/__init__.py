"""DataFrames: transforms, column functions, the data source, writing."""

from __future__ import annotations
