"""Reads and writes Puffin files, which contain blobs of any type.

PFA1 | blob 1 … blob n | PFA1 | payload | payload size: i32 LE | flags: 4 bytes | PFA1
"""

from puffin_fast.puffin.metadata import BlobMetadata, FileMetadata
from puffin_fast.puffin.reader import PuffinReader
from puffin_fast.puffin.writer import PuffinWriter

__all__ = ["BlobMetadata", "FileMetadata", "PuffinReader", "PuffinWriter"]


def __dir__() -> list[str]:
    return sorted(__all__)
