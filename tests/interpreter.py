"""CPU time of the interpreter that runs this, in microseconds, for work that is all its own: `make` chooses by it.

Exits with 1 if its version does not fit. One that cannot make environments or compile extensions is the last choice.
"""

import ast
import importlib.util
import inspect
import sys
import sysconfig
import time
from pathlib import Path

INCOMPLETE_US = 1_000_000_000

if not (3, 11) <= sys.version_info < (3, 14):
    sys.exit(1)


def parse_and_print(source: str) -> int:
    began = time.process_time_ns()
    ast.unparse(ast.parse(source))
    return (time.process_time_ns() - began) // 1000


complete = all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))
complete &= Path(sysconfig.get_path("include"), "Python.h").exists()
source = inspect.getsource(sysconfig)  # much the same in each version
print(min(parse_and_print(source) for _ in range(7)) + (0 if complete else INCOMPLETE_US))
