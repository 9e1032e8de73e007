"""One target under libFuzzer: ``python -m tests.fuzz.fuzz_one TARGET [libFuzzer's arguments]``.

libFuzzer's symbols are made global before the kernels load, so that their counters find it.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    name = sys.argv.pop(1)
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
    import atheris

    sys.setdlopenflags(os.RTLD_NOW)
    from tests.fuzz.targets import TARGETS

    if name == "puffin" or name == "puffin_footer":  # the only decoders that are Python
        import puffin_fast.puffin.footer
        import puffin_fast.puffin.metadata
        import puffin_fast.puffin.reader

        for module in (puffin_fast.puffin.footer, puffin_fast.puffin.metadata, puffin_fast.puffin.reader):
            for key, value in vars(module).items():
                if getattr(value, "__module__", None) == module.__name__ and hasattr(value, "__code__"):
                    setattr(module, key, atheris.instrument_func(value))
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
