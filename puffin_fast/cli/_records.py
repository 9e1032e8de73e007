"""Files of deletion vectors other than Puffin: Delta's ``.bin``, Paimon's index files, Lance's deletion files.

The format of a file is recognised by its first bytes, not by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from puffin_fast._io import open_source
from puffin_fast.dv import delta, iceberg, lance, paimon
from puffin_fast.errors import PuffinFastError

RECORDS = "records of Delta or Paimon"
LANCE = "deletion file of Lance"

_RECORDS = {
    iceberg.MAGIC: (iceberg.BLOB_TYPE, iceberg.decode),
    delta.NATIVE_MAGIC: ("native payload of Delta", delta.decode),
    paimon.MAGIC_V1: ("version 1 of Paimon", paimon.decode),
}
"""Name and `decode` of a record by its magic. Delta's portable records and Paimon's version 2 are Iceberg's blobs."""


@dataclass(frozen=True)
class DeletionVectorFile:
    """The content of a file of deletion vectors.

    Attributes:
        path: the path of the file.
        format: `RECORDS` or `LANCE`.
        data: all bytes.
    """

    path: str
    format: str
    data: bytes

    def vectors(self) -> Iterator[dict[str, Any]]:
        """Yields type, offset, length and content of each vector. For damaged bytes, the content is the error."""
        if self.format == LANCE:
            is_arrow = self.data.startswith(lance.ARROW_MAGIC)
            yield self._vector(
                "Arrow file" if is_arrow else "32-bit Roaring bitmap", 0, len(self.data), lance.decode
            )
            return
        at = 1
        try:
            for offset, length in delta.spans(self.data, self.path):
                magic = self.data[offset + 4 : offset + 8]
                name, decode = _RECORDS.get(magic, (None, iceberg.decode))
                yield self._vector(name, offset, length, decode)
                at = offset + length
        except PuffinFastError as error:
            left = len(self.data) - at
            yield {"type": None, "offset": at, "length": left, "content": {"error": str(error)}}

    def _vector(self, name: str | None, offset: int, length: int, decode: Any) -> dict[str, Any]:
        content: dict[str, Any] = {"n_bytes": length}
        try:
            bitmap = decode(self.data[offset : offset + length], path=self.path, offset=offset)
            content |= {"cardinality": len(bitmap), "containers": bitmap.containers()._asdict()}
        except PuffinFastError as error:
            content = {"error": str(error)}
        return {"type": name, "offset": offset, "length": length, "content": content}


def open_vectors(path: str) -> DeletionVectorFile | None:
    """Reads a file of deletion vectors; None if the file has another format, such as Puffin.

    Raises:
        NotFoundError: there is no such file.
    """
    with open_source(path) as source:
        head = source.read_at(0, min(source.size, len(lance.ARROW_MAGIC)))
        if head[:1] == bytes([delta.FILE_VERSION]):
            form = RECORDS
        elif head == lance.ARROW_MAGIC or head[:2] in lance.COOKIES:
            form = LANCE
        else:
            return None
        return DeletionVectorFile(path, form, source.read_at(0, source.size))
