"""Each codec and each kind of buffer."""

from __future__ import annotations

import pytest

from tests.dv.codecs import CODECS, Codec
from tests.kit.buffers import as_buffer

__all__ = ["as_buffer", "codec"]


@pytest.fixture(params=CODECS, ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest) -> Codec:
    """Each codec in turn."""
    found: Codec = request.param
    return found
