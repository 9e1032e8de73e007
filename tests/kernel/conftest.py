"""Parameters of the check bank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kernel.bank import BUFFERS, CODECS, Codec


@pytest.fixture(params=CODECS, ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest) -> Codec:
    """Each codec in turn."""
    found: Codec = request.param
    return found


@pytest.fixture(params=BUFFERS)
def as_buffer(request: pytest.FixtureRequest) -> Callable[[bytes], Any]:
    """Each kind of buffer in turn, as a function of bytes."""
    return BUFFERS[request.param]
