"""A FileIO that kills its process in the middle of a commit; executors take it too, and live."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.spark.faults.harm import die

if TYPE_CHECKING:
    from pyiceberg.io import OutputFile


class DyingFileIO(PyArrowFileIO):
    """Kills its process when it is about to write a file with these letters in its name."""

    at: ClassVar[str] = ""

    def new_output(self, location: str) -> OutputFile:
        if self.at and self.at in location:
            die()
        return super().new_output(location)
