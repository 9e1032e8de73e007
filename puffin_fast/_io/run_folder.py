"""The folder of one run of a job whose files workers write.

A file is ``{run}-{attempt}-{8 hex digits}-{n:04d}{suffix}``. The attempt is ``{partition:05d}-{taskAttemptId}`` on
Spark, ``worker`` on an executor, else ``driver``. A repeated or speculative attempt writes files of its own. The hex
digits are random: a worker may write several times. In the end, the folder has the files that the caller received and
keeps; others are of attempts that ended, or whose result was not needed.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from puffin_fast._concurrency.workers import attempt
from puffin_fast._io.file_set import FileSet
from puffin_fast._io.folder import names_in, remove_empty
from puffin_fast._io.sink import remove
from puffin_fast._process.outcome import note_outcome
from puffin_fast.errors import JobInterruptedError, PuffinFastError

JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""A job id that can begin the name of a folder and of files."""

_LOG = logging.getLogger(__name__)


def run_name(job_id: str | None, kind: str) -> str:
    """Returns a new name for a run of a job; it begins with the job id, if that can, or with the kind of job."""
    known = job_id is not None and JOB.fullmatch(job_id) is not None
    return f"{job_id if known else kind}-{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run. It can be pickled.

    Attributes:
        location: the folder. It has the name of the run, unless files of others are there, too.
        run: the name of the run, and the first part of the name of each file.
    """

    location: str
    run: str

    def names(self) -> Callable[[str], str]:
        """Returns a function that makes the location of a new file from its suffix; no other call returns the same."""
        stem = f"{self.location}/{self.run}-{attempt()}-{uuid.uuid4().hex[:8]}"
        numbers = count()
        return lambda suffix: f"{stem}-{next(numbers):04d}{suffix}"

    @contextmanager
    def keeping(self, filesystem: Any) -> Iterator[list[str]]:
        """Yields a list for the locations of files to keep; after the block, all others are removed.

        Args:
            filesystem: lists and removes files.

        Raises:
            JobInterruptedError: Spark's job was cancelled.
        """
        kept: list[str] = []
        try:
            yield kept
        except BaseException as error:
            kept.clear()
            removed = (
                f"the files of run {self.run} in {self.location} are removed, and tasks that still run may leave "
                "others there, which remove_job_files removes"
            )
            if isinstance(error, JobInterruptedError):
                raise JobInterruptedError(f"{error}; {removed}") from error
            note_outcome(error, f"nothing was committed; {removed}")
            raise
        finally:
            self.clear(kept, filesystem)

    def clear(self, kept: Collection[str], filesystem: Any) -> None:
        """Removes other files, and a local folder that is empty then. Errors are logged, so that they replace none."""
        try:
            known, is_own = FileSet(kept), self.location.rpartition("/")[2] == self.run
            for start in ("",) if is_own else (f"{self.run}-", f".{self.run}-"):
                for name in names_in(self.location, start, filesystem=filesystem):
                    if (path := f"{self.location}/{name}") not in known:
                        remove(path, filesystem=filesystem)
            if is_own:
                remove_empty(self.location, filesystem=filesystem)
        except (OSError, PuffinFastError) as trouble:
            _LOG.warning("run %s: unused files may be left in %s: %s", self.run, self.location, trouble)
