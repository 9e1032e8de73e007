"""Reads a snapshot: its schema, the plan of its files, deletion vectors and rows."""

from __future__ import annotations
