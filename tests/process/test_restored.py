"""What a block changes for the whole process is as before after an interrupt at any of its steps."""

from __future__ import annotations

import gc
import inspect
import linecache
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import FrameType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import acceleration as patches
from puffin_fast._process import gc_pause
from puffin_fast.iceberg.compat import table_metadata

if TYPE_CHECKING:
    from tests.kit.faults import RacingCatalog


def each_step(
    module: ModuleType, block: Callable[[], AbstractContextManager[Any]], is_restored: Callable[[], bool]
) -> int:
    """Interrupts the begin of a block before each line of a module that it runs; returns the number of these."""
    file, n_ran, step = inspect.getsourcefile(module), 0, 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal n_ran
        if frame.f_code.co_filename != file:
            return None
        # a line of `with` is also that of its end, where no signal's handler runs
        if event == "line" and not linecache.getline(file, frame.f_lineno).strip().startswith("with "):
            n_ran += 1
            if n_ran == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    while step == n_ran:
        step, n_ran = step + 1, 0
        sys.settrace(trace)
        with suppress(KeyboardInterrupt), block():
            sys.settrace(None)
        assert is_restored(), f"{module.__name__}: interrupted at step {step}"
    return step - 1


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_garbage_collector(was_enabled: bool) -> None:
    (gc.enable if was_enabled else gc.disable)()
    try:
        assert each_step(gc_pause, gc_pause.paused_gc, lambda: gc.isenabled() == was_enabled) > 4
        with gc_pause.paused_gc():
            assert each_step(gc_pause, gc_pause.paused_gc, lambda: not gc.isenabled()) > 4
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()


def test_patches_of_other_packages() -> None:
    owner = SimpleNamespace(__name__="owner", first=lambda: 1, second=lambda: 2)
    before = dict(vars(owner))
    ours = [patches.Patch(owner, name, lambda: 3, ()) for name in ("first", "second")]
    ended = patches.Patches("owner", lambda: ours)

    def are_used_once() -> bool:
        with ended.begin():
            used = (owner.first(), owner.second()) == (3, 3)
        return used and vars(owner) == before

    assert each_step(patches, ended.begin, are_used_once) > 5


def test_the_calls_of_a_catalog(racing: RacingCatalog) -> None:
    block = lambda: table_metadata.v3_metadata(racing)  # noqa: E731
    assert each_step(table_metadata, block, lambda: table_metadata._calls.get() is None) > 4
