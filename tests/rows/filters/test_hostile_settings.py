"""Whatever a process has set (decimals, time zone, NumPy, Arrow, Python), a filter and a verb mean the same rows."""

from __future__ import annotations

import decimal
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, In, LessThan

from puffin_fast import delta, iceberg
from tests.kit.tables import sqlite_catalog

N = 40
START = datetime(2024, 1, 15, 16, 0)
ROWS = pa.table(
    {
        "i": pa.array(range(N), pa.int64()),
        "ts": pa.array([START + timedelta(seconds=27 * n) for n in range(N)], pa.timestamp("us")),
        "day": [date(2024, 1, 1) + timedelta(n // 10) for n in range(N)],
        "wide": pa.array([Decimal(f"{n}234567890123456789012345678.12345") for n in range(N)], pa.decimal128(38, 5)),
        "price": pa.array([Decimal(1234567 * n).scaleb(-2) for n in range(N)], pa.decimal128(12, 2)),
        "x": [n / 3 - 5 for n in range(N)],
    }
)  # fmt: skip
FILTERS: list[Any] = [
    "ts < '2024-01-15 16:10:00'",
    "ts in ('2024-01-15 16:00:27.0000', '2024-01-15 16:10:48')",
    "day >= '2024-01-03'",
    "wide > 12234567890123456789012345678.12344",
    "wide = '7234567890123456789012345678.12345'",
    "wide < 99999999999999999999999999999999999999999.5",
    "price between 12345.675 and 123456.701",
    "price in (12345.67, 24691.34, 24691.345)",
    "x < 0.1 or x > 1e400",
    f"i < {'9' * 640}",
    LessThan("wide", Decimal("21234567890123456789012345678.123456789")),
    In("price", [Decimal("12345.67"), Decimal("37037.010")]),
    GreaterThan("ts", (START + timedelta(seconds=81)).isoformat()),
    EqualTo("x", -5),
]


@contextmanager
def context(given: decimal.Context) -> Iterator[None]:
    """A context of decimals, in other threads too."""
    default = decimal.DefaultContext
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps")
    before = {name: getattr(default.copy(), name) for name in names}
    try:
        for name in names:
            setattr(default, name, getattr(given, name))
        with decimal.localcontext(given):
            yield
    finally:
        for name, value in before.items():
            setattr(default, name, value)


@contextmanager
def changed(read: Callable[[], Any], write: Callable[[Any], object], value: Any) -> Iterator[None]:
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


def set_zone(name: str | None) -> None:
    os.environ.pop("TZ", None)
    if name is not None:
        os.environ["TZ"] = name
    time.tzset()


@contextmanager
def everything() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(
            context(decimal.Context(prec=6, rounding=decimal.ROUND_UP, Emax=9, Emin=-9, traps=[]))
        )
        stack.enter_context(np.errstate(all="raise"))
        for read, write, value in (
            (lambda: os.environ.get("TZ"), set_zone, "Asia/Kathmandu"),
            (pa.cpu_count, pa.set_cpu_count, 1),
            (pa.io_thread_count, pa.set_io_thread_count, 1),
            (sys.get_int_max_str_digits, sys.set_int_max_str_digits, 640),
        ):
            stack.enter_context(changed(read, write, value))
        yield


SIGNALS = [decimal.Inexact, decimal.Rounded, decimal.FloatOperation, decimal.Clamped, decimal.Subnormal]
SETTINGS: dict[str, Callable[[], Any]] = {
    "few digits": lambda: context(decimal.Context(prec=6)),
    "basic": lambda: context(decimal.BasicContext),
    "traps": lambda: context(decimal.Context(traps=SIGNALS)),
    "everything": everything,
}


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["i"])


class Tables:
    """A table of Iceberg and one of Delta with the same rows."""

    def __init__(self, folder: Path) -> None:
        catalog = sqlite_catalog(folder)
        parts = ("day", "truncate[1000](price)", "bucket[3](wide)", "hour(ts)")
        self.iceberg = iceberg.create_table(catalog, "n.t", ROWS.schema, partition_spec=parts)
        iceberg.append(self.iceberg, ROWS)
        self.delta = folder / "delta"
        deltalake.write_deltalake(self.delta, ROWS, partition_by=["day"])
        properties = {"delta.enableDeletionVectors": "true"}
        deltalake.DeltaTable(self.delta).alter.set_table_properties(properties, raise_if_not_exists=False)

    def found(self, row_filter: Any) -> list[tuple[list[Any], int]]:
        found = []
        for engine, table in ((iceberg, self.iceberg), (delta, self.delta)):
            rows = engine.scan(table, row_filter).to_arrow()["i"]  # type: ignore[attr-defined]
            n_deleted = engine.delete(table, row_filter, dry_run=True).rows_deleted  # type: ignore[attr-defined]
            found.append((sorted(rows.to_pylist()), n_deleted))
        return found


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def expected(tables: Tables) -> list[Any]:
    return [tables.found(row_filter) for row_filter in FILTERS]


def test_filters_have_the_rows_of_the_test(expected: list[Any]) -> None:
    by_hand = {0: range(23), 2: range(20, N), 3: range(12, N), 4: [7], 5: range(N), 7: [1, 2], 9: range(N)}
    for at, rows in by_hand.items():
        assert expected[at] == [(list(rows), len(rows))] * 2, FILTERS[at]
    assert all(iceberg_rows == delta_rows for iceberg_rows, delta_rows in expected)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_filter_means_the_same_rows_under_each_setting(
    tables: Tables, expected: list[Any], setting: str
) -> None:
    with SETTINGS[setting]():
        found = [tables.found(row_filter) for row_filter in FILTERS]
    assert found == expected


def test_verbs_write_the_same_rows_under_each_setting(tmp_path: Path) -> None:
    outcomes = []
    for setting in (None, "traps", "everything"):
        folder = tmp_path / f"{setting}"
        folder.mkdir()
        with ExitStack() as stack:
            if setting is not None:
                stack.enter_context(SETTINGS[setting]())
            tables = Tables(folder)
            outcome = []
            for engine, table in ((iceberg, tables.iceberg), (delta, tables.delta)):
                verbs: Any = engine
                verbs.delete(table, "ts < '2024-01-15 16:01:00' and wide > 1.5")
                verbs.delete_keys(table, ROWS.slice(5, 2).select(["wide", "ts"]), ["wide", "ts"])
                verbs.update(table, "price = 123456.70", {"price": "99999.99", "wide": Decimal("1.5")})
                changed_rows = ROWS.slice(12, 3).set_column(5, "x", pa.array([0.5, 1e300, -0.0]))
                verbs.upsert(table, changed_rows, ["price", "day"])
                outcome.append(verbs.scan(table).to_arrow())
            outcomes.append([sorted_rows(rows) for rows in outcome])
    assert outcomes[0][0] == outcomes[0][1]
    assert len(outcomes[0][0]) == N - 5
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_times_of_commits_are_utc(tables: Tables) -> None:
    with everything():
        now = datetime.now(UTC)
        assert len(iceberg.scan(tables.iceberg, as_of=now.isoformat()).to_arrow()) == N


# Locales ----------------------------------------------------------------------------------------------------------

LOCALE = """
LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
LC_CTYPE
copy "POSIX"
END LC_CTYPE
"""
"""As in most of Europe: a comma before decimals, a point between thousands."""

IN_A_LOCALE = """
import locale, pickle, sys
from pathlib import Path
locale.setlocale(locale.LC_NUMERIC, "of_test")
assert locale.str(1.5) == "1,5"
from tests.rows.filters.test_hostile_settings import FILTERS, Tables
tables = Tables(Path(sys.argv[1]))
sys.stdout.buffer.write(pickle.dumps([tables.found(row_filter) for row_filter in FILTERS]))
"""


@pytest.mark.skipif(shutil.which("localedef") is None, reason="needs localedef to make a locale")
def test_a_filter_means_the_same_rows_in_a_locale_with_decimal_commas(
    expected: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "source").write_text(LOCALE)
    made = tmp_path / "of_test"
    command = ["localedef", "--force", "-i", str(tmp_path / "source"), str(made)]
    subprocess.run(command, capture_output=True, check=False)
    if not made.exists():
        pytest.skip("localedef makes no locale of this source")
    found = subprocess.run(
        [sys.executable, "-c", IN_A_LOCALE, str(tmp_path)],
        env=os.environ | {"LOCPATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        check=True,
    )
    assert pickle.loads(found.stdout) == expected
