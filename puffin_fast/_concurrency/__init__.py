"""Work on threads and executors: pools, ordered streams, groups of items, progress."""

from __future__ import annotations
