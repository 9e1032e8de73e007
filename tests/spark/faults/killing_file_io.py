"""A FileIO that kills the driver in the middle of a commit; executors that use it are not killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.spark.faults.injection import die

if TYPE_CHECKING:
    from pyiceberg.io import OutputFile


class KillingFileIO(PyArrowFileIO):
    """Kills its process before it writes a file whose location contains `at`."""

    at: ClassVar[str] = ""

    def new_output(self, location: str) -> OutputFile:
        if self.at and self.at in location:
            die()
        return super().new_output(location)
