"""The transaction log: files, actions, snapshots, commits."""

from __future__ import annotations
