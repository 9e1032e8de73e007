"""What public functions have in common: checks of arguments, names, extras."""

from __future__ import annotations
