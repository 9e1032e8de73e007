"""The laws. Each runs for every kind of tables, every verb and every worker; see `tests.laws`."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from puffin_fast.errors import ConflictError, InvalidInputError
from tests.laws.adapter import LIVE, RIVAL, START, VERBS, Subject, Verb, has_word, refusal

__all__ = [
    "test_a_branch_has_the_rows_and_main_keeps_its_own",
    "test_a_commit_has_the_properties_that_it_is_given",
    "test_a_conflict_is_refused_and_leaves_the_other_commit_alone",
    "test_a_dry_run_changes_nothing_and_counts_what_the_verb_and_threads_count",
    "test_a_job_is_done_once_and_its_id_is_of_one_verb",
    "test_a_verb_with_nothing_to_do_commits_nothing",
    "test_a_verb_leaves_the_rows_of_a_list_and_counts_them",
    "test_an_explanation_has_all_data_files_and_rows_of_the_table",
    "test_an_interrupt_before_the_commit_leaves_no_file",
    "test_an_interrupt_while_the_commit_is_sent_says_what_is_known",
    "test_merging_searches_the_rows_of_the_other_commit",
    "test_rows_keep_their_ids_and_new_rows_get_new_ones",
]


@contextmanager
def unchanged(table: Subject) -> Iterator[None]:
    """Checks that a block changes neither rows nor files."""
    files = table.table.files()
    yield
    assert table.table.files() == files
    assert table.other().rows() == LIVE


def refused(table: Subject, verb: Verb, **options: Any) -> bool:
    """Whether a verb cannot be done. Then it raises what `CANNOT` says, and changes nothing."""
    found = refusal(table, verb, *options)
    if found is None:
        return False
    with unchanged(table), pytest.raises(found.error, match=found.message):
        table.run(verb, **options)
    return True


@contextmanager
def at(place: str, happening: Callable[[Callable[[], Any]], Any]) -> Iterator[None]:
    """Runs a function when the code passes a place for the first time; its argument goes on there."""
    passed: Any = pkgutil.resolve_name(place)
    with pytest.MonkeyPatch.context() as patch:

        def replaced(*arguments: Any, **options: Any) -> Any:
            patch.undo()
            return happening(lambda: passed(*arguments, **options))

        patch.setattr(place, replaced)
        yield


def interrupt(go_on: Callable[[], Any]) -> None:
    raise KeyboardInterrupt


def interrupt_after(go_on: Callable[[], Any]) -> None:
    go_on()
    raise KeyboardInterrupt


NOTHING = r"nothing was committed, (\d+ files were removed|1 file was removed|no file was written)"


# Laws -------------------------------------------------------------------------------------------------


def test_a_verb_leaves_the_rows_of_a_list_and_counts_them(table: Subject, verb: Verb) -> None:
    if refused(table, verb):
        return
    before = table.data_files()
    done = table.run(verb)
    after = table.data_files()
    assert table.rows() == verb.after(LIVE)
    for rows in table.table.others():
        assert {one["id"]: one for one in rows} == verb.after(LIVE)
    assert {name: done.counts[name] for name in verb.counts} == verb.counts
    assert (done.commit, done.attempts, done.repeated) == (table.table.state(), 1, False)
    if verb.function == "transaction":  # one verb changes what another one has written
        return
    assert done.counts.get("data_files_written", 0) == len(after.keys() - before.keys())
    if "data_files_dropped" in done.counts:
        assert done.counts["data_files_dropped"] == len(before.keys() - after.keys())
    if "data_files" in done.counts:
        assert done.counts["data_files"] == sum(after.get(path) != ids for path, ids in before.items())


def test_a_verb_with_nothing_to_do_commits_nothing(table: Subject, verb: Verb) -> None:
    if refused(table, verb):
        return
    if verb.nothing is None:
        table.run(verb)
    else:
        nothing = verb.nothing
        verb = verb._replace(arguments=lambda table: nothing)
    files, state = table.table.files(), table.table.state()
    done = table.run(verb)
    assert (done.commit, done.repeated) == (None, False)
    assert (table.table.files(), table.table.state()) == (files, state)
    assert table.rows() == LIVE


def test_a_dry_run_changes_nothing_and_counts_what_the_verb_and_threads_count(
    table: Subject, verb: Verb
) -> None:
    if refused(table, verb, dry_run=True):
        return
    with unchanged(table):
        planned = table.run(verb, dry_run=True)
        on_threads = Subject(table.table).run(verb, dry_run=True)
    assert planned.commit is None
    assert planned.counts == on_threads.counts
    if planned.explanations:
        assert planned.explanations == on_threads.explanations
    done = table.run(verb)
    if verb.function != "append":  # it reads no row
        assert {name: planned.counts.get(name, 0) for name in verb.counts} == verb.counts
    for name in ("data_files", "data_files_dropped"):
        assert planned.counts.get(name, 0) == done.counts.get(name, 0)


def test_a_job_is_done_once_and_its_id_is_of_one_verb(table: Subject, verb: Verb) -> None:
    if refused(table, verb, job_id="a"):
        return
    arguments = verb.arguments(table)
    verb = verb._replace(arguments=lambda table: arguments)
    first = table.run(verb, job_id="a")
    files = table.table.files()
    again = table.run(verb, job_id="a")
    assert (first.repeated, again.repeated) == (False, True)
    assert again.commit == (first.commit if table.table.has_branches else None)
    other = VERBS["delete" if verb.function == "append" else "append"]
    with pytest.raises(InvalidInputError, match="job_id 'a'"):
        table.other().run(other, job_id="a")
    assert table.table.files() == files
    assert table.rows() == verb.after(LIVE)


def test_a_commit_has_the_properties_that_it_is_given(table: Subject, verb: Verb) -> None:
    if refused(table, verb, snapshot_properties={"who": "me"}):
        return
    done = table.run(verb, snapshot_properties={"who": "me"})
    assert done.commit is not None
    assert table.properties(done.commit)["who"] == "me"


def test_a_branch_has_the_rows_and_main_keeps_its_own(table: Subject, verb: Verb) -> None:
    if table.table.has_branches:
        table.create_branch("b")
    if refused(table, verb, branch="b"):
        return
    table.run(verb, branch="b")
    assert table.rows() == LIVE
    assert table.rows(branch="b") == verb.after(LIVE)


def test_a_conflict_is_refused_and_leaves_the_other_commit_alone(table: Subject, verb: Verb) -> None:
    if refused(table, verb):
        return
    files, theirs = table.table.files(), set[Path]()

    def rival(go_on: Callable[[], Any]) -> Any:
        nonlocal theirs
        before = table.table.files()
        table.other().run(RIVAL)
        theirs = table.table.files() - before
        return go_on()

    if has_word(verb.merges, table.table.kind.split()):
        with at(table.table.send, rival):
            table.run(verb)
        assert table.rows() == verb.after(RIVAL.after(LIVE))
        return
    with pytest.raises(ConflictError), at(table.table.send, rival):
        table.run(verb)
    assert table.other().rows() == RIVAL.after(LIVE)
    assert table.table.files() == files | theirs


def test_merging_searches_the_rows_of_the_other_commit(table: Subject, verb: Verb) -> None:
    if refused(table, verb, on_conflict="merge"):
        return

    expected: Mapping[str, int] = {}

    def rival(go_on: Callable[[], Any]) -> Any:
        nonlocal expected
        table.other().run(RIVAL)
        expected = table.other().run(verb, dry_run=True).counts
        return go_on()

    with at(table.table.send, rival):
        done = table.run(verb, on_conflict="merge")
    assert done.attempts == 2
    assert {name: done.counts[name] for name in verb.counts} == {name: expected[name] for name in verb.counts}
    assert table.rows() == verb.after(RIVAL.after(LIVE))


def test_an_interrupt_before_the_commit_leaves_no_file(table: Subject, verb: Verb) -> None:
    if refused(table, verb):
        return
    place = table.table.before_commit[-1]
    with unchanged(table), pytest.raises(KeyboardInterrupt) as caught, at(place, interrupt):
        table.run(verb)
    assert re.fullmatch(NOTHING, "; ".join(caught.value.__notes__))


@pytest.mark.parametrize("happens", [False, True])
def test_an_interrupt_while_the_commit_is_sent_says_what_is_known(
    table: Subject, verb: Verb, happens: bool
) -> None:
    if refused(table, verb):
        return
    ending = interrupt_after if happens else interrupt
    with pytest.raises(KeyboardInterrupt) as caught, at(table.table.send, ending):
        table.run(verb)
    known = r"it is unknown whether the commit .* happened.*no file was removed" if happens else NOTHING
    assert re.search(known, "; ".join(caught.value.__notes__))
    assert table.other().rows() == (verb.after(LIVE) if happens else LIVE)


def test_rows_keep_their_ids_and_new_rows_get_new_ones(table: Subject, verb: Verb) -> None:
    if refused(table, verb):
        return
    before = table.table.row_ids()
    table.run(verb)
    after = table.table.row_ids()
    if not table.table.has_row_ids:
        assert {*before.values(), *after.values()} == {None}
        return
    assert {id: after[id] for id in after.keys() & before.keys()} == {
        id: before[id] for id in after.keys() & before.keys()
    }
    new = [after[id] for id in after.keys() - before.keys()]
    assert len({*new}) == len(new)
    assert min(new, default=99) > max(before.values())


def test_an_explanation_has_all_data_files_and_rows_of_the_table(table: Subject, verb: Verb) -> None:
    if refused(table, verb):
        return
    n_files, done = len(table.data_files()), table.run(verb)
    if table.worker != "spark":  # where Spark searches, nothing is explained
        assert bool(done.explanations) == (verb.function in SEARCHES)
    for one in done.explanations if verb.function != "transaction" else ():
        assert (one.table.data_files, one.table.rows) == (n_files, len(START))
        for name, total in (("data_files", n_files), ("rows", len(START))):
            assert sum(getattr(part, name) for part in (*one.left_out, one.read)) == total


SEARCHES = (
    "delete",
    "delete_keys",
    "update",
    "upsert",
    "overwrite",
    "dynamic_partition_overwrite",
    "transaction",
)
"""The verbs that search rows, and explain how."""
