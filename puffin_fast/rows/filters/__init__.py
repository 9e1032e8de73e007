"""Row filters: parsed, bound to a schema once, evaluated on columns and on bounds."""

from __future__ import annotations
