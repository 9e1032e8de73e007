"""Rewrites of data files: which of them, in which groups, and the order of their rows."""
