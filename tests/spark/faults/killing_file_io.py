"""FileIOs that kill: the driver in the middle of a commit, or an executor that writes a data file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.spark.faults.injection import BEGUN, FOLDER, die, reached

if TYPE_CHECKING:
    from pyiceberg.io import OutputFile, OutputStream


class KillingFileIO(PyArrowFileIO):
    """Kills its process, the driver's, before it writes a file whose location contains `at`."""

    at: ClassVar[str] = ""

    def new_output(self, location: str) -> OutputFile:
        if self.at and self.at in location:
            die()
        return super().new_output(location)


class FaultyFileIO(PyArrowFileIO):
    """Lets the planned fault happen to an executor that has begun a data file, or a file of vectors."""

    def new_output(self, location: str) -> OutputFile:
        output = super().new_output(location)
        create, step = output.create, BEGUN.get(Path(location).suffix)

        def begun(overwrite: bool = False) -> OutputStream:
            stream = create(overwrite)
            reached(str(step), Path(location.removeprefix("file://")))
            return stream

        if FOLDER in os.environ and step is not None:
            output.create = begun  # type: ignore[method-assign]
        return output
