"""One snapshot: changes, conflicts, manifests and the retry protocol."""

from __future__ import annotations
