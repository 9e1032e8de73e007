"""Changes one place of a module at a time, and says whether tests notice.

    python -m tests.mutants puffin_fast/verbs/delete.py --tests "tests/laws -k delete" --n 20
    python -m tests.mutants puffin_fast/delta/log/*.py --tests tests/delta/log --old tests/delta/test_head.py

With ``--old``, each mutant first meets those tests, as they are in the commit ``--ref``, and the new ones only have to
kill what these kill: tests may go if no mutant survives that died before. The same files, number and seed make the same
mutants. It works on a copy; the checkout does not change.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
NOT_COPIED = {".git", "build", "site", "findings", "docs", "examples", "bench_data"}
OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.FloorDiv: ast.Mult,
}  # fmt: skip
"""Each operator, and the one that takes its place."""


class Mutant(NamedTuple):
    file: Path
    line: int
    before: str
    after: str
    source: str


def changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    """What can be changed at one node of a syntax tree."""
    if isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp):
        op = node.ops[0] if isinstance(node, ast.Compare) else node.op
        if other := OTHER.get(type(op)):
            if isinstance(node, ast.Compare):
                yield lambda: node.ops.__setitem__(0, other())  # type: ignore[call-overload]
            else:
                yield lambda: setattr(node, "op", other())
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and "TYPE_CHECKING" not in ast.unparse(node.test):
        yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Constant) and isinstance(value := node.value, bool | int):
        yield lambda: setattr(node, "value", not value if isinstance(value, bool) else value + 1)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield lambda: setattr(node, "value", ast.Constant(None))


def removals(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Statements of a block that can go: calls, assignments to attributes, errors."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        for at, statement in enumerate(block if isinstance(block, list) else ()):
            is_call = isinstance(statement, ast.Expr) and isinstance(
                statement.value, ast.Call | ast.YieldFrom
            )
            if is_call or isinstance(statement, ast.Raise | ast.Continue | ast.AugAssign):
                yield lambda at=at, block=block, line=statement: block.__setitem__(  # type: ignore[misc]
                    at, ast.copy_location(ast.Pass(), line)
                )


def functions(tree: ast.Module) -> list[ast.AST]:
    """The nodes within functions, without annotations, defaults and the checks of `zip`."""
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    seen = {id(node): node for body in bodies for statement in body for node in ast.walk(statement)}
    notes = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
    notes += [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "strict"]
    for note in filter(None, notes):
        for node in ast.walk(note):
            seen.pop(id(node), None)
    return list(seen.values())


def every(file: Path) -> Iterator[Callable[[], Mutant]]:
    """All mutants of a module."""
    text = file.read_text()
    nodes = functions(ast.parse(text))
    for number, node in enumerate(nodes):
        for kind in (changes, removals):
            for which, _ in enumerate(kind(node)):

                def mutant(number: int = number, kind: Callable = kind, which: int = which) -> Mutant:  # type: ignore[type-arg]
                    tree = ast.parse(text)
                    old = ast.unparse(tree).splitlines()
                    node = functions(tree)[number]
                    list(kind(node))[which]()
                    source = ast.unparse(ast.fix_missing_locations(tree))
                    new = source.splitlines()
                    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
                    before, after = old[at].strip(), new[at].strip() if at < len(new) else ""
                    return Mutant(file, getattr(node, "lineno", 0), before, after, source)

                yield mutant


def copied(folder: Path, ref: str | None) -> Path:
    """A copy of the checkout of links; with the tests of a commit, if one is named."""

    def link(source: str, target: str) -> None:
        os.link(os.path.realpath(source), target)

    def left_out(at: str, names: list[str]) -> set[str]:
        return (
            {n for n in names if n in NOT_COPIED or n.startswith((".venv", ".pytest"))}
            if at == str(ROOT)
            else set()
        )

    shutil.copytree(ROOT, folder, copy_function=link, ignore=left_out)
    if ref is not None:
        shutil.rmtree(folder / "tests")
        archive = subprocess.run(["git", "archive", ref, "tests"], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def first_failure(folder: Path, tests: str, timeout_s: float) -> str | None:
    """The first test that fails, None if none does."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "fast"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        *shlex.split(tests),
    ]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return "no end"
    if process.returncode == 0:
        return None
    lines = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0] if lines else output.strip()[-200:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tests", required=True, help="arguments of pytest")
    parser.add_argument("--old", help="arguments of pytest for the tests that these replace")
    parser.add_argument("--ref", default="main", help="the commit of the old tests")
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    choice = random.Random(given.seed)
    mutants = [one for file in given.files for one in every(file.resolve())]
    chosen = choice.sample(mutants, min(given.n, len(mutants)))
    lost = 0
    with tempfile.TemporaryDirectory() as scratch:
        suites = [(copied(Path(scratch) / "new", None), given.tests)]
        if given.old:
            suites.insert(0, (copied(Path(scratch) / "old", given.ref), given.old))
        limits = []
        for folder, tests in suites:
            began = time.monotonic()
            assert (failed := first_failure(folder, tests, 1800)) is None, f"without a change: {failed}"
            limits.append(30 + 4 * (time.monotonic() - began))
        for make in chosen:
            mutant = make()
            place = mutant.file.relative_to(ROOT)
            killers = []
            for (folder, tests), limit in zip(suites, limits, strict=True):
                (folder / place).unlink()
                (folder / place).write_text(mutant.source)
                killers.append(first_failure(folder, tests, limit))
                (folder / place).unlink()
                os.link(mutant.file, folder / place)
                if killers[-1] is None and folder.name == "old":
                    break
            survives = killers[-1] is None
            lost += survives and (not given.old or len(killers) == 2)
            verdict = "SURVIVES" if survives else "dies"
            print(f"{verdict:9}{place}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
            print(f"         {' | '.join(str(killer) for killer in killers)}", flush=True)
    print(f"{len(chosen)} mutants, {lost} survive" + (" that died before" if given.old else ""))
    return min(lost, 1)


if __name__ == "__main__":
    sys.exit(main())
