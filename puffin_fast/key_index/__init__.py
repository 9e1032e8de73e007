"""Key indexes, which find rows by their keys. A segment is encoded from whole Arrow arrays of keys."""

from puffin_fast.key_index.canonical import from_integers, hash_bytes, kind_of
from puffin_fast.key_index.making import encode, encode_words, merge, merge_into
from puffin_fast.key_index.segment import (
    BLOB_TYPE,
    ChunkPages,
    CoveredFile,
    KeyMatches,
    KeyWords,
    Read,
    Segment,
    in_memory,
    lookup,
)

__all__ = [
    "BLOB_TYPE",
    "ChunkPages",
    "CoveredFile",
    "KeyMatches",
    "KeyWords",
    "Read",
    "Segment",
    "encode",
    "encode_words",
    "from_integers",
    "hash_bytes",
    "in_memory",
    "kind_of",
    "lookup",
    "merge",
    "merge_into",
]
