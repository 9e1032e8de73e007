"""The program `puffin-fast`, also `python -m puffin_fast`."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Imports and runs the command line. An interrupt (Ctrl-C) of the import prints no traceback."""
    try:
        from puffin_fast.cli import main as run
    except KeyboardInterrupt:
        print("puffin-fast: interrupted: nothing was changed", file=sys.stderr)
        sys.exit(INTERRUPTED)
    run(prog_name="puffin-fast")


if __name__ == "__main__":
    main()
