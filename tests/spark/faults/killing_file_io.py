"""FileIOs that kill or hold: the driver in the middle of a commit, or an executor that begins a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.spark.faults.injection import BEGUN, FAULTS, FOLDER, die, reached, wait

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


class HeldFileIO(PyArrowFileIO):
    """Holds executors that begin a file, while the file ``hold`` is in the folder of the property ``held``.

    They wait until it is gone, or do the fault that is its content.
    """

    def new_output(self, location: str) -> OutputFile:
        from pyspark import TaskContext

        folder = Path(self.properties["held"])
        hold = folder / "hold"
        if TaskContext.get() is not None and hold.exists():
            (folder / "is-held").touch()
            fault = hold.read_text()
            if fault in FAULTS:
                FAULTS[fault](Path(location))
            wait(lambda: not hold.exists())
        return super().new_output(location)
