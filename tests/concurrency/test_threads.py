"""Thread pools end, whatever an exception of a signal's handler interrupted."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import threading
from puffin_fast._concurrency.streams import in_order
from puffin_fast._concurrency.threads import thread_pool

class Stop(Exception): ...

try:
    with thread_pool(1, "t") as pool:
        go = threading.Lock()
        go.acquire()
        future = pool.submit(go.acquire)
        future._condition.acquire()  # as if an exception had come while `result` left it
        go.release()
        raise Stop
except Stop:
    print("ended", threading.active_count())

rows = in_order([1, 2, 3], lambda n: iter([n] * 10), 2)
next(rows)
channel = rows.gi_frame.f_locals["waiting"][0]
channel._changed.acquire()  # the same, of the reader
rows.close()
print("ended", threading.active_count())
"""


def test_a_pool_ends_though_an_exception_left_a_lock_with_this_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "ended 1\nended 1\n", done.stderr
