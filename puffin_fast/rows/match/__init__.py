"""Given rows beside stored rows: keys, values, change feeds, assignments."""

from __future__ import annotations
