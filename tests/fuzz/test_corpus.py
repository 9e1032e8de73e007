"""The fuzzing corpus as ordinary tests, without a fuzzer."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.seeds import CORPUS
from tests.fuzz.table_targets import TABLE_TARGETS
from tests.fuzz.targets import TARGETS
from tests.kit.cases import each

EVERY = TARGETS | TABLE_TARGETS

INPUTS = [path for name in EVERY for path in sorted((CORPUS / name).glob("*"))]


@each("target", EVERY)
def test_the_corpus_has_inputs_for_every_target(target: str) -> None:
    assert any(path.parent.name == target for path in INPUTS)


@each("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_input_of_the_corpus_passes(path: Path) -> None:
    EVERY[path.parent.name](path.read_bytes())
