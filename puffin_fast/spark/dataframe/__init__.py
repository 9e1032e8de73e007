"""DataFrames: transformations, column functions, jobs that write files."""

from __future__ import annotations
