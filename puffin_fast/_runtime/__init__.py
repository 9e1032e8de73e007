"""How a path, URI, file object or filesystem becomes a source to read ranges of, or a sink to append to.

The only home of file access for formats: a `Source` reads byte ranges, a `Sink` takes bytes in order and then
becomes visible (`commit`) or vanishes (`abort`). Filesystems are those of pyarrow.fs, of fsspec, and
PyIceberg's FileIO; they are told apart by what they can do, so none of these packages is imported for the
others' sake.
"""

from puffin_fast._runtime.file_set import FileSet
from puffin_fast._runtime.location import Location, is_local, split_location
from puffin_fast._runtime.sink import Sink, open_sink, remove
from puffin_fast._runtime.source import Source, open_source, unbuffered

__all__ = [
    "FileSet",
    "Location",
    "Sink",
    "Source",
    "is_local",
    "open_sink",
    "open_source",
    "remove",
    "split_location",
    "unbuffered",
]
