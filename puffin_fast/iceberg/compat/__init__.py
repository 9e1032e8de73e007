"""The private parts of PyIceberg that this package uses."""

from __future__ import annotations
