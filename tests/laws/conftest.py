"""The matrix of the laws: each law runs on tables of each kind, with each verb, by the worker of its module."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.iceberg.conftest import processes
from tests.kit.kinds import KINDS, AnyTable, create
from tests.laws.adapter import DELETED, START, VERBS, Subject, of
from tests.laws.laws import __all__

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each law begins with another kind, so that a lane that runs each eighth case runs others of each law."""
    if "verb" in metafunc.fixturenames:
        first = __all__.index(metafunc.function.__name__) % len(KINDS)
        kinds = [*KINDS][first:] + [*KINDS][:first]
        cases = [(kind, name) for name in VERBS for kind in kinds]
        values = [(kind, VERBS[name]) for kind, name in cases]
        metafunc.parametrize(("kind", "verb"), values, ids=[f"{name}-{kind}" for kind, name in cases])
    elif "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS)


@pytest.fixture(scope="session")
def models(shared_catalog: SqlCatalog, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], AnyTable]:
    """Makes the table of each kind once; tests get copies."""
    folder = tmp_path_factory.mktemp("models")
    shared_catalog.create_namespace_if_not_exists("laws")

    @cache
    def model(kind: str) -> AnyTable:
        rows = list(START.values())
        table = create(
            kind,
            [of(rows[:6]), of(rows[6:])],
            folder,
            shared_catalog,
            name=f"laws.{kind.replace(' ', '_')}",
        )
        for id in DELETED:
            table.verbs.delete(table.table, f"id = {id}")
        return table

    return model


@pytest.fixture
def table(
    kind: str,
    worker: dict[str, Any],
    models: Callable[[str], AnyTable],
    tmp_path: Path,
    namespace: str,
    shared_catalog: SqlCatalog,
) -> Subject:
    """A table of a kind with the rows of `LIVE`."""
    model = models(kind)
    own: Any
    if isinstance(model.table, Path):
        own = shutil.copytree(model.table, tmp_path / "t")
    else:
        own = shared_catalog.register_table(f"{namespace}.t", model.table.metadata_location)
    copied = type(model)(kind, own, has_row_ids=model.has_row_ids, is_partitioned=model.is_partitioned)
    return Subject(copied, **worker)


@pytest.fixture(scope="session")
def pool() -> Iterator[Executor]:
    with processes(2) as found:
        yield found
