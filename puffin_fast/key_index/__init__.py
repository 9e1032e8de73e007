"""Key indexes: where rows are, by their keys. A segment is its sorted bytes, made of whole Arrow arrays."""

from puffin_fast.key_index.canonical import from_integers, kind_of
from puffin_fast.key_index.segment import (
    BLOB_TYPE,
    CoveredFile,
    Found,
    KeyWords,
    Read,
    Segment,
    encode,
    encode_words,
    in_memory,
    lookup,
    merge,
)

__all__ = [
    "BLOB_TYPE",
    "CoveredFile",
    "Found",
    "KeyWords",
    "Read",
    "Segment",
    "encode",
    "encode_words",
    "from_integers",
    "in_memory",
    "kind_of",
    "lookup",
    "merge",
]
