"""The seeds of tests with random histories."""

from __future__ import annotations

import os


def seeds(n: int) -> range:
    """Returns the seeds of histories.

    ``PUFFIN_FAST_HISTORIES`` says how many there are, and ``PUFFIN_FAST_FIRST_SEED`` the first one.

    Args:
        n: how many by default, from 0 on.
    """
    first = int(os.environ.get("PUFFIN_FAST_FIRST_SEED", "0"))
    return range(first, first + int(os.environ.get("PUFFIN_FAST_HISTORIES", str(n))))
