"""What terminals, notebooks and reports display: tables, HTML and charts."""

from __future__ import annotations
