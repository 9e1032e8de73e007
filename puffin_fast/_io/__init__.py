"""File access, threads and garbage-collector pauses.

All formats read and write files through this package. A `Source` reads byte ranges of a file. A `Sink` writes bytes in
order; the file becomes visible on `commit` and is removed on `abort`. Both accept paths, URIs, file objects, and the
filesystems of pyarrow.fs, fsspec and PyIceberg (FileIO). The kind of a filesystem is recognised without importing the
packages of the other kinds.
"""

from puffin_fast._io.file_set import FileSet
from puffin_fast._io.location import Location, is_local, is_remote, split_location
from puffin_fast._io.sink import Sink, open_sink, remove
from puffin_fast._io.source import Source, open_source, unbuffered

__all__ = [
    "FileSet",
    "Location",
    "Sink",
    "Source",
    "is_local",
    "is_remote",
    "open_sink",
    "open_source",
    "remove",
    "split_location",
    "unbuffered",
]
