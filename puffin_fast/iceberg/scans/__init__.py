"""Scans: reads the live rows of a table, and accelerates PyIceberg's own scans."""

from __future__ import annotations
