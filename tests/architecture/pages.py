"""Tables, readers and cases that several tests share with `test_docs`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "puffin_fast").rglob("*.py")
    if ">>>" in path.read_text()
)


def blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(), flags=re.MULTILINE | re.DOTALL)


STORE = re.compile(r"\b(s3|gs|az)://")


def run_blocks(
    document: Path, replaced: Mapping[str, str] = {"spark.stop()": ""}, stores: Collection[str] = ()
) -> None:
    """Runs the blocks of a page in one namespace, with parts of them replaced; a session of Spark goes on.

    Args:
        stores: the schemes of object stores that are there. Blocks that need others are left out.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(document)):
        if not set(STORE.findall(block)) <= set(stores):
            continue
        code = block
        for part, other in replaced.items():
            code = code.replace(part, other)
        exec(compile(code, f"{document.name}, block {number}", "exec"), namespace)
