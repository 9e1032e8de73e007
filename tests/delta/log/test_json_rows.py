"""Commits in other forms than one action in a line: read as delta-kernel reads them, where nothing is ambiguous."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from duckdb import DuckDBPyConnection

from puffin_fast import delta, errors
from tests.conftest import require_module
from tests.delta.tables import Golden, alter, commit_of, configure, ids, refused
from tests.kit.rows import by_duckdb

Lines = list[dict[str, Any]]


def dumped(lines: Lines, end: str = "\n", **options: Any) -> str:
    return "".join(json.dumps(line, **options) + end for line in lines)


def of_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: of_floats(inner) for name, inner in value.items()}
    return float(value) if type(value) is int else value


def in_one_object(lines: Lines) -> Lines:
    """The actions in as few objects as their kinds allow; `add` and `remove` are apart."""
    found: Lines = []
    for line in lines:
        kinds = set(line) | ({"add", "remove"} if {"add", "remove"} & set(line) else set())
        free = (one for one in found if not kinds & set(one))
        if (one := next(free, None)) is None:
            found.append(dict(line))
        else:
            one.update(line)
    return found


FORMS: dict[str, Callable[[Lines], str]] = {
    "several in a line": lambda lines: dumped(lines, " "),
    "without spaces": lambda lines: dumped(lines, ""),
    "pretty-printed": lambda lines: dumped(lines, indent=2),
    "numbers as floats": lambda lines: dumped([of_floats(line) for line in lines]),
    "numbers with exponents": lambda lines: dumped(lines).replace('"size": ', '"size": 10e-1'),
    "blank lines": lambda lines: "\n\n" + dumped(lines, "\n \n"),
    "other line ends": lambda lines: dumped(lines, "\r\n"),
    "several kinds in an object": lambda lines: dumped(in_one_object(lines)),
}


def rewrite(table: Path, form: Callable[[Lines], str], versions: slice = slice(None)) -> None:
    for file in sorted((table / "_delta_log").glob("*.json"))[versions]:
        file.write_text(form([json.loads(line) for line in file.read_text().splitlines()]), newline="")


@pytest.mark.parametrize("name", ["spark_partitioned", "spark_many_features"])
@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_commits_are_read_and_written_on(
    form: str, name: str, golden: Golden, duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before, adds = ids(table), sorted(map(str, delta.snapshot(table).adds(range(3))))
    rewrite(table, FORMS[form])
    assert ids(table) == before
    if form != "numbers with exponents":
        assert sorted(map(str, delta.snapshot(table).adds(range(3)))) == adds
        assert delta.verify(table) == []
    assert [row["id"] for row in by_duckdb(duckdb_delta, table, "id")] == before
    done = delta.delete(table, "id < 30")
    assert done.rows_deleted == sum(id < 30 for id in before)
    assert ids(table) == [id for id in before if id >= 30]
    assert [row["id"] for row in by_duckdb(duckdb_delta, table, "id")] == [id for id in before if id >= 30]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (lambda lines: json.dumps(lines), "line 1: expected object, found array"),
        (lambda lines: ",\n".join(map(json.dumps, lines)), "line 1: expected a JSON object"),
        (lambda lines: dumped(lines)[:-10], "expected a JSON object, found"),
        (lambda lines: dumped(lines, indent=1).replace("{", "", 1), "line 2: expected object, found str"),
        (
            lambda lines: dumped(lines[:2]) + dumped([{**lines[2], "remove": {"path": "b"}}, *lines[3:]]),
            "line 3: expected one action, found both add and remove",
        ),
    ],
)
def test_forms_that_are_ambiguous_are_refused(
    form: Callable[[Lines], str], message: str, partitioned: Path
) -> None:
    rewrite(
        partitioned,
        lambda lines: form(sorted(lines, key=lambda line: ("add" in line and "z") or "a")),
        slice(3, 4),
    )
    with refused(partitioned, errors.CorruptDataError, message) as caught:
        delta.delete(partitioned, "id < 30")
    assert f"{3:020d}.json" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "line 4: expected a JSON object"),
        ("5", "line 4: expected object, found int"),
        ("null", "line 4: expected object, found null"),
        (
            '{"add":{"path":"a"},"remove":{"path":"b"}}',
            "line 4: expected one action, found both add and remove",
        ),
        ('{"add":{"path":5}}', "add.path of line 4: expected str, found int"),
        ('{"add":{"size":5,"partitionValues":{}}}', "expected a path|add of line 4: expected a field path"),
        (
            '{"add":{"path":"a","deletionVector":{"storageType":"u","offset":"x"}}}',
            "deletionVector.offset of line 4",
        ),
    ],
)
def test_a_commit_that_is_no_commit_is_named(line: str, message: str, partitioned: Path) -> None:
    file = partitioned / "_delta_log" / f"{3:020d}.json"
    file.write_text(file.read_text().rstrip("\n") + "\n" + line + "\n")
    with pytest.raises(errors.CorruptDataError, match=message) as caught:
        delta.snapshot(partitioned)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "edit", "message"),
    [
        ("add", lambda a: a.update(size=530.5), "add.size of line .: expected int | null, found float"),
        ("add", lambda a: a.update(size="530"), "add.size of line .: expected int | null, found str"),
        ("add", lambda a: a.update(size=1e30), "add.size of line .: expected int"),
        ("add", lambda a: a.update(size=10**30), "add.size of line .: expected int"),
        ("add", lambda a: a["deletionVector"].update(offset=1 << 31), "add.deletionVector.offset of line ."),
        ("commitInfo", lambda a: a.update(inCommitTimestamp="x"), None),
    ],
)
def test_values_of_another_type_are_named(
    kind: str, edit: Callable[[dict[str, Any]], object], message: str | None, partitioned: Path
) -> None:
    before = ids(partitioned)
    alter(partitioned, kind, edit, 3)
    if message is None:  # the values of `commitInfo` are free; a commit reads the time
        assert ids(partitioned) == before
        with pytest.raises(errors.CorruptDataError, match=r"inCommitTimestamp of commitInfo: .*found str"):
            delta.delete(partitioned, "id < 30")
        return
    with pytest.raises(errors.CorruptDataError, match=message) as caught:
        ids(partitioned)
    assert str(partitioned / "_delta_log" / f"{3:020d}.json") in str(caught.value)


@pytest.mark.parametrize("form", ["pretty-printed", "several in a line", "numbers as floats"])
def test_times_of_commits_in_other_forms_are_found(form: str, golden: Golden) -> None:
    table = golden("spark_many_features")
    (info,) = commit_of(table, 2)["commitInfo"]
    rewrite(table, FORMS[form])
    assert delta.snapshot(table, as_of=info["inCommitTimestamp"]).version == 2
    assert delta.snapshot(table, as_of=info["inCommitTimestamp"] - 1).version == 1


def test_a_time_of_a_commit_that_is_a_text_is_named(golden: Golden) -> None:
    table = golden("spark_many_features")
    alter(table, "commitInfo", lambda info: info.update(inCommitTimestamp="x"), 2)
    with pytest.raises(errors.CorruptDataError, match=r"inCommitTimestamp of commitInfo: .*found str"):
        delta.snapshot(table, as_of=1 << 42)


@pytest.mark.parametrize("n_rows", ["1000.0", "1e3"])
def test_numbers_of_records_may_be_floats(n_rows: str, golden: Golden) -> None:
    table = golden("hand_inline")
    stats = f'{{"numRecords":{n_rows},"nullCount":{{"id":0.0}}}}'
    alter(table, "add", lambda add: add.update(stats=stats), 0, 1, 2)
    assert delta.scan(table).count() == len(ids(table)) == 900
    assert delta.delete(table, "id < 5").rows_deleted == 4
    (add,) = commit_of(table, 3)["add"]
    assert json.loads(add["stats"])["numRecords"] == 1000


@pytest.mark.parametrize("n_rows", ['"1000"', "true", "-5", "1.5", "[1]", "1e30", "9" * 30])
def test_other_numbers_of_records_are_named(n_rows: str, golden: Golden) -> None:
    table = golden("hand_inline")
    alter(table, "add", lambda add: add.update(stats=f'{{"numRecords":{n_rows}}}'), 0, 1, 2)
    with pytest.raises(errors.CorruptDataError, match=r"numRecords( of stats of a file)?: expected"):
        delta.scan(table).count()


def test_properties_that_are_no_texts_are_their_json(partitioned: Path) -> None:
    """deltalake reads them; the protocol has texts only."""
    given = {"enableDeletionVectors": True, "checkpointInterval": 3, "a": 1.5, "appendOnly": False}
    configure(partitioned, **given)
    texts = {"enableDeletionVectors": "true", "checkpointInterval": "3", "a": "1.5", "appendOnly": "false"}
    assert delta.snapshot(partitioned).configuration.items() >= {(f"delta.{k}", v) for k, v in texts.items()}
    n_rows = delta.scan(partitioned).count()
    assert delta.delete(partitioned, "id < 70").rows_deleted == n_rows - delta.scan(partitioned).count() > 0
    deltalake: Any = require_module("deltalake")
    assert deltalake.DeltaTable(str(partitioned)).metadata().configuration["delta.checkpointInterval"] == "3"
    alter(partitioned, "metaData", lambda action: action["configuration"].update({"a": ["b"]}))
    with pytest.raises(errors.CorruptDataError, match="configuration"):
        delta.scan(partitioned).count()
