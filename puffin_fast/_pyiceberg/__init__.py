"""PyIceberg's types, extended: variants and other types of format version 3, metrics of columns, supported versions."""

from __future__ import annotations
