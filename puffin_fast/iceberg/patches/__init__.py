"""What `accelerate` replaces in PyIceberg."""

from __future__ import annotations
