"""What concerns the whole process: signals, forks, the garbage collector, values made once."""

from __future__ import annotations
