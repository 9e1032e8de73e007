"""Parameters of the check bank."""

from __future__ import annotations

from tests.kernel.conftest import as_buffer

__all__ = ["as_buffer"]
