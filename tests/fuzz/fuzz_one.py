"""One target under libFuzzer: ``python -m tests.fuzz.fuzz_one TARGET [libFuzzer's arguments]``.

The kernels load last, when the library with atheris's libFuzzer is loaded, and get its address, so
that their counters find it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

PYTHON_DECODERS = ("footer", "metadata", "reader", "compression")
"""Modules of `puffin_fast.puffin`, whose Python code atheris instruments."""


def main() -> None:
    name = sys.argv.pop(1)
    import atheris

    (core,) = Path(atheris.__file__).parent.glob("core_with_libfuzzer.*.so")
    ctypes.CDLL(str(core), os.RTLD_NOW | os.RTLD_LOCAL)
    os.environ["PUFFIN_FAST_LIBFUZZER"] = str(core)
    if name.startswith("puffin"):
        with atheris.instrument_imports(include=[f"puffin_fast.puffin.{part}" for part in PYTHON_DECODERS]):
            import puffin_fast.puffin.reader  # noqa: F401
    from tests.fuzz.targets import TARGETS

    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
