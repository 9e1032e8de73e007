"""Deletes of data files: loaded, applied, united with new ones."""

from __future__ import annotations
