"""Tables and their catalogs: how they are opened, created and committed to; a folder as a catalog; tables by path."""

from __future__ import annotations
