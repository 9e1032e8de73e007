"""The engine: which rows of data files, whatever the format of the table."""

from __future__ import annotations
