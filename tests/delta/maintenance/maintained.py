"""Tables, readers and cases that several tests share with `test_maintain`."""

from __future__ import annotations

KILLED = """
import os, sys
from puffin_fast import delta
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast._io import sink
step, table = sys.argv[1:]
if step == "before_the_commit":
    TableStorage.put = lambda self, path, data: os._exit(9)
elif step == "while_the_commit_is_written":
    sink._LocalSink.commit = (lambda old: lambda self: os._exit(9) if self.path.endswith(".json") else old(self))(
        sink._LocalSink.commit
    )
elif step == "while_vectors_are_written":
    sink._LocalSink.commit = lambda self: os._exit(9)
elif step == "after_the_commit":
    TableStorage.put = (lambda old: lambda self, path, data: (old(self, path, data), os._exit(9)))(TableStorage.put)
delta.delete(table, "id < 30")
"""
