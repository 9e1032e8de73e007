"""`python -m puffin_fast` starts the command line."""

from puffin_fast.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main(prog_name="puffin-fast")
