"""One of several processes that delete different rows of one table at the same time."""

from __future__ import annotations

import sys

from puffin_fast import delta, errors


def main() -> None:
    """Deletes rows one by one; another's commit to the same file is no reason to give up."""
    table, rows = sys.argv[1:3]
    for row in map(int, rows.split(",")):
        while True:
            try:
                done = delta.delete(table, f"id = {row}", on_conflict="merge")
                break
            except errors.ConflictError:
                continue
        assert done.rows_deleted == 1, done


if __name__ == "__main__":
    main()
