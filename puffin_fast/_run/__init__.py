"""How work runs: threads, ordered streams, progress, interrupts, garbage-collector pauses, checks of arguments.

Knows no files and no tables.
"""
