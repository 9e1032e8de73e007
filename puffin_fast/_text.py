"""Text that comes from files and is shown on a terminal."""

from __future__ import annotations

__all__ = ["printable"]

JOINERS = "\u200c\u200d"
"""Zero-width characters that scripts and emoji need; they do nothing to a terminal."""


def printable(text: str) -> str:
    r"""The text with control characters as Python's escapes: they would clear the screen or set its title.

    Escaped are the characters that `str.isprintable` does not count as printable: C0 and C1 controls, line
    ends, direction marks, unpaired surrogates.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in JOINERS else c.encode("unicode_escape").decode() for c in text
    )
