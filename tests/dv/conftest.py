"""Parameters of the check bank."""

from __future__ import annotations

from tests.kernel.conftest import as_buffer, codec

__all__ = ["as_buffer", "codec"]
