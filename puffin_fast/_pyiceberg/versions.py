"""The versions of PyIceberg whose private parts this package uses."""

from __future__ import annotations

import pyiceberg

from puffin_fast.errors import UnsupportedError

KNOWN_VERSIONS = ("0.12",)
"""Minor versions of PyIceberg that this package was written for."""


def check_version(version: str = pyiceberg.__version__) -> None:
    """Refuses a PyIceberg for which this package was not written.

    Raises:
        UnsupportedError: the installed version is not one of `KNOWN_VERSIONS`.
    """
    if ".".join(version.split(".")[:2]) not in KNOWN_VERSIONS:
        raise UnsupportedError(
            f"pyiceberg {version}: expected {' or '.join(f'{known}.x' for known in KNOWN_VERSIONS)}; "
            "writing tables uses parts of it that change between versions"
        )
