"""Data files: opened and checked, their columns projected by field id, their row groups pruned."""

from __future__ import annotations
