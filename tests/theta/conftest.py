"""Each kind of buffer."""

from __future__ import annotations

from tests.kit.buffers import as_buffer

__all__ = ["as_buffer"]
