"""Filesystems on which first attempts of tasks fail after they have written a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast.iceberg.index.stored import NAME_END


class Flaky(AbstractFileSystem):
    """Local files under another scheme, so that they are not opened as local files.

    Args:
        fault: what a first attempt does when it opens its second file: ``raise`` or ``kill``. A file
            ``faulted`` beside the folder shows that it happened.
    """

    protocol = "flaky"
    cachable = False

    def __init__(self, fault: str, **options: Any) -> None:
        super().__init__(fault=fault, **options)
        self.fault = fault
        self.opened = 0
        self.inner = LocalFileSystem(auto_mkdir=True)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("flaky://")

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and "w" in mode:
            self.opened += 1
            if context.attemptNumber() == 0 and self.opened == 2:
                Path(self._strip_protocol(path)).parent.with_name("faulted").touch()
                if self.fault == "kill":
                    os._exit(9)
                raise OSError("injected error")
        return self.inner.open(self._strip_protocol(path), mode, **options)

    def info(self, path: str, **options: Any) -> Any:
        return self.inner.info(self._strip_protocol(path), **options)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        return self.inner.ls(self._strip_protocol(path), detail=detail, **options)

    def rm_file(self, path: str) -> None:
        self.inner.rm_file(self._strip_protocol(path))


class FlakyFileIO(PyArrowFileIO):
    """First attempts raise at their second file. The file in property ``faulted`` shows that it happened."""

    opened = 0

    def new_output(self, location: str) -> OutputFile:
        from pyspark import TaskContext

        context = TaskContext.get()
        self.opened += context is not None
        if context is not None and context.attemptNumber() == 0 and self.opened == 2:
            Path(self.properties["faulted"]).touch()
            raise OSError("injected error")
        return super().new_output(location)


class FlakyIndexIO(PyArrowFileIO):
    """First attempts that open a file with an index of keys fail as property ``fault`` says: ``raise`` or ``kill``.

    The file in property ``faulted`` shows that it happened.
    """

    def new_input(self, location: str) -> InputFile:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and location.endswith(NAME_END):
            Path(self.properties["faulted"]).touch()
            if self.properties["fault"] == "kill":
                os._exit(9)
            raise OSError("injected error")
        return super().new_input(location)
