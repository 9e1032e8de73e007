"""Escapes text from files for printing on a terminal."""

from __future__ import annotations

__all__ = ["printable"]

JOINERS = "\u200c\u200d"
"""Zero-width characters that scripts and emoji need; they do nothing to a terminal."""


def printable(text: str) -> str:
    r"""Replaces control characters, which could clear the screen or set its title, by Python's escapes.

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
