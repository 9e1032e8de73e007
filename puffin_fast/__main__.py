"""The program `puffin-fast`, also `python -m puffin_fast`."""

from __future__ import annotations

import atexit
import gc
import sys

INTERRUPTED = 130

YOUNG_OBJECTS = 50_000
"""New objects before Python looks for cycles: imports make hundreds of thousands of objects and few cycles."""


class _WithoutPandas:
    """A finder of modules that refuses pandas."""

    def find_spec(self, name: str, *_: object) -> None:
        """Refuses pandas, and leaves other modules to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def _omit_pandas() -> None:
    """Makes PyArrow work without pandas, which the commands do not need and which takes long to import.

    PyArrow imports pandas at the first array or scalar that it makes, to recognise its Series; if that fails, it does
    not try again. Functions that return objects of pandas import it when they are called.
    """
    import pyarrow as pa

    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(None)
    finally:
        sys.meta_path.remove(finder)


def main() -> None:
    """Imports and runs the command line. An interrupt (Ctrl-C) of the import or of a completion prints no traceback."""
    gc.set_threshold(YOUNG_OBJECTS)
    atexit.register(gc.freeze)  # else Python traverses the objects of all modules when it ends
    try:
        if "--spark" not in sys.argv:
            _omit_pandas()
        from puffin_fast.cli import main as run
    except KeyboardInterrupt:
        print("puffin-fast: interrupted: nothing was changed", file=sys.stderr)
        sys.exit(INTERRUPTED)
    try:
        run(prog_name="puffin-fast")
    except KeyboardInterrupt:  # while a shell waits for names; commands handle it themselves
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
