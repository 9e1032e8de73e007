"""Scan planning: the files of a snapshot, the delete index, pruning and the inventory of deletes."""

from __future__ import annotations
