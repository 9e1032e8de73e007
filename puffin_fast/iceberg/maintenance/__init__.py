"""Table maintenance: converts, compacts, repairs and verifies deletes, reports their cost, lists orphan files."""

from __future__ import annotations
