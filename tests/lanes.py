"""Which tests each lane runs: this file is the one place that decides it.

`make check` runs what `CHECK` names, without what needs a JVM or is slow. `make test` runs all tests but those of
`DEEP`, and `make test-deep` those of `DEEP`: each test is in one of the two. `.ci/run` runs the groups of `DEEP` in
their order, so that the ones come first that find most.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]

LANES = {"check": "quick", "test": "fast", "deep": "ci"}
"""Each lane and its profile of hypothesis, unless ``HYPOTHESIS_PROFILE`` names another."""

CHECK = (
    "tests/architecture",
    "tests/kernels",
    "tests/bitmap",
    "tests/arrow",
    "tests/dv",
    "tests/theta",
    "tests/key_index",
    "tests/puffin",
    "tests/kit",
    "tests/first_hour/test_refused_arguments.py",
    "tests/iceberg/plan",
    "tests/iceberg/dml/test_tables.py",
    "tests/delta/scans/test_scan.py",
    "tests/cli/test_table.py",
    "tests/cli/test_table_rows.py",
    "tests/cli/test_commands.py",
)
"""Folders and files; not what they have of `DEEP`."""

CHECK_HAS_NOT = frozenset(("slow", "spark", "jar", "pypaimon"))
"""Markers."""

DEEP: dict[str, tuple[str, ...]] = {
    "kills": (
        "tests/delta/dml/test_interrupted.py::test_an_exception_of_a_handler_comes_out_and_the_table_is_whole[1:]",
        "tests/delta/dml/test_killed.py[1:]",
        "tests/iceberg/faults/test_killed.py::test_a_killed_job_that_keeps_indexes_changes_no_row_and_the_next_run_finishes_it",
        "tests/iceberg/faults/test_killed.py::test_a_killed_removal_loses_no_live_file_and_the_next_run_finishes_it",
        "tests/iceberg/faults/test_killed.py[1:]",
        "tests/lance/test_deletions.py::test_a_killed_delete_is_whole_or_not_there[1:]",
    ),
    "spark": (
        "tests/delta/spark/test_executors.py::test_a_killed_driver_leaves_all_or_nothing",
        "tests/delta/spark/test_executors.py::test_rows_go_by_keys_of_a_dataframe",
        "tests/delta/spark/test_executors.py[1:]",
        "tests/delta/spark/test_spark.py",
        "tests/iceberg/scans/test_accelerate_spark.py[1:]",
        "tests/iceberg/scans/test_scan_spark.py[1:]",
        "tests/spark/faults",
        "tests/spark/table/test_catalogs.py::test_the_session_sees_each_commit_to_a_table_that_it_keeps",
        "tests/spark/sources/test_change_streams.py::test_each_change_comes_once_through_restarts_and_failures",
        "tests/spark/table/test_conditions.py::test_columns_mean_what_spark_says_whether_pruned_or_not",
        "tests/spark/table/test_conditions.py::test_text_means_what_spark_says_whether_pruned_or_not",
        "tests/spark/dataframe/test_examples.py",
        "tests/spark/table/test_explanations.py::test_what_spark_searches_is_not_explained",
        "tests/spark/table/test_hive_catalog.py",
        "tests/spark/table/test_iceberg_cases.py",
        "tests/spark/table/test_iceberg_cases.py::test_updates[1:]",
        "tests/spark/test_laws.py::test_on_a_rest_catalog",
        "tests/spark/test_laws.py::test_on_connect",
        "tests/spark/table/test_names.py",
        "tests/spark/sources/test_replicas.py",
        "tests/spark/session/test_worker_python.py",
        "tests/spark[1:]",
    ),
    "models": (
        "tests/iceberg/scans/test_scan_model.py[1:]",
        "tests/laws/test_histories.py::test_a_table_is_a_list_of_rows_with_a_history[%4]",
        "tests/rows/deletes/test_equality.py::test_random_appends_and_deletes_agree_with_a_list[%4]",
        "tests/rows/files/test_coded_texts.py::test_changed_bytes_are_refused_or_have_the_same_rows",
    ),
    "races": (
        "tests/delta/dml/test_delete.py::test_racing_processes_lose_no_delete",
        "tests/delta/log/test_storage_on_s3.py::test_of_many_writers_on_s3_none_loses_a_delete",
        "tests/iceberg/commit/test_races.py::test_processes_that_share_a_table_lose_nothing[1:]",
        "tests/iceberg/commit/test_races.py::test_threads_that_share_a_table_lose_nothing[1:]",
        "tests/iceberg/commit/test_writers.py[1:]",
        "tests/iceberg/maintenance/test_removal_races.py::test_beside_four_writing_processes_no_live_file_is_removed",
    ),
    "engines": (
        "tests/iceberg/delete_files/test_position_files.py::test_spark_and_we_delete_in_turn_then_the_table_is_upgraded[1:]",
        "tests/iceberg/dml/test_update.py::test_spark_reads_and_continues_what_we_update_and_upsert[1:]",
        "tests/iceberg/maintenance/test_convert.py::test_equality_deletes_that_java_wrote_are_converted_as_spark_reads_them[1:]",
        "tests/iceberg/maintenance/test_java_failures.py",
        "tests/iceberg/maintenance/test_rewrite_data_files.py::test_spark_reads_the_same_rows_and_lineage[1:]",
        "tests/iceberg/plan/test_columns.py::test_manifests_of_spark_are_read_as_entry_by_entry[1:]",
        "tests/interop/test_both_directions.py::test_both_merge_manifests_in_turn_and_rows_keep_their_ids",
        "tests/laws/test_histories_of_engines.py",
        "tests/interop/test_changes_of_engines.py",
        "tests/interop/test_histories.py",
        "tests/interop/test_key_index.py",
        "tests/interop[1:]",
        "tests/paimon/test_java.py",
    ),
    "cases": (
        "tests/examples/test_demo.py",
        "tests/cli/test_json_lines.py::test_json_lines_that_scan_prints_are_read_again[%3]",
        "tests/cli/test_round_trips.py::test_each_value_of_each_type_comes_back[%5]",
        "tests/cli/test_round_trips.py::test_values_are_set_as_scan_prints_them[%4]",
        "tests/delta/log/test_checkpoint.py::test_checkpoints_of_many_files_are_read[%3]",
        "tests/delta/log/test_checkpoint_writer.py::test_the_table_says_how_often[%3]",
        "tests/delta/log/test_json_rows.py::test_other_forms_of_commits_are_read_and_written_on[%4]",
        "tests/delta/dml/test_partition_folders.py::test_every_reader_finds_the_partition_of_rows_that_were_changed[1:]",
        "tests/delta/log/test_damage.py::test_a_table_on_read_only_storage_is_read_and_writes_are_refused",
        "tests/delta/scans/test_schema.py::test_files_of_before_a_type_was_widened_are_read[%3]",
        "tests/first_hour/test_attempts.py::test_refused_attempts_say_what_to_write[%3]",
        "tests/first_hour/test_pyiceberg_verbs.py::test_metadata_and_rows_change_in_one_commit[%3]",
        "tests/first_hour/test_pyiceberg_verbs.py::test_verbs_do_what_they_do_on_version_2[%5]",
        "tests/iceberg/commit/test_busy_catalog.py::test_a_commit_for_which_the_catalog_has_no_space_is_reported_as_not_committed",
        "tests/iceberg/commit/test_busy_catalog.py::test_a_commit_that_a_lock_prevents_is_reported_as_not_committed[%3]",
        "tests/iceberg/commit/test_protocol.py::test_a_case_takes_its_transitions_and_leaves_the_files_that_the_table_needs[%3]",
        "tests/iceberg/delete_files/test_encodings.py::test_positions_are_read_in_every_encoding_of_the_paths[%3]",
        "tests/iceberg/delete_files/test_position_files.py::test_deletes_in_turn_leave_the_right_rows[1:]",
        "tests/iceberg/dml/test_bloom_filters.py::test_scans_and_verbs_find_the_rows_that_they_find_without_filters",
        "tests/iceberg/dml/test_delete_keys.py::test_all_columns_of_a_feature_table_may_be_the_key",
        "tests/iceberg/dml/test_delete_keys.py::test_exactly_the_rows_with_a_key_are_deleted[%5]",
        "tests/iceberg/dml/test_odd_locations.py::test_a_table_works_where_pyiceberg_writes_what_it_says[%3]",
        "tests/iceberg/dml/test_overwrite.py::test_an_overwrite_has_the_rows_of_pyicebergs[%7]",
        "tests/iceberg/dml/test_overwrite.py::test_partitions_are_replaced_as_by_pyiceberg[%3]",
        "tests/iceberg/dml/test_refusals.py::test_a_location_without_write_access_is_named[%3]",
        "tests/iceberg/dml/test_refusals.py::test_a_vector_that_disagrees_with_the_manifest_is_refused[%3]",
        "tests/iceberg/dml/test_refusals.py::test_data_files_of_another_format_are_named[%3]",
        "tests/iceberg/dml/test_refusals.py::test_position_deletes_of_another_format_are_named[%3]",
        "tests/iceberg/commit/test_upgrade_races.py::test_row_ids_that_another_commit_assigns_meanwhile_are_kept[%3]",
        "tests/iceberg/faults/test_damaged_metadata.py::test_a_wrong_number_of_a_manifest_list_is_a_finding_and_hides_no_rows_and_no_deletes[%3]",
        "tests/iceberg/faults/test_left_behind.py::test_a_disk_that_is_full_is_an_error_and_leaves_nothing",
        "tests/iceberg/faults/test_values.py::test_values_of_manifests_are_refused_or_read[1:]",
        "tests/iceberg/faults/test_values.py::test_values_that_no_file_has_are_refused_or_read[%3]",
        "tests/iceberg/index/test_damaged_indexes.py::test_a_lost_index_loses_no_rows[%3]",
        "tests/iceberg/index/test_failed_reads.py::test_each_failed_read_of_an_index_costs_time_only[1:]",
        "tests/iceberg/index/test_lookup.py::test_keys_of_each_type_and_of_several_columns_are_deleted_as_without_an_index[%5]",
        "tests/iceberg/index/test_lookup.py::test_scans_deletes_and_updates_by_filter_are_those_without_an_index[%13]",
        "tests/iceberg/maintenance/test_convert.py::test_converting_keeps_the_rows_and_leaves_only_vectors[%5]",
        "tests/iceberg/maintenance/test_compact.py::test_compacting_twice_changes_nothing[%3]",
        "tests/iceberg/maintenance/test_orphan_files.py::test_no_spelling_of_the_data_path_removes_a_jobs_live_files[%3]",
        "tests/iceberg/maintenance/test_repair.py::test_a_vector_without_frame_is_written_to_a_puffin_file[%3]",
        "tests/iceberg/maintenance/test_report.py::test_names_and_values_of_users_are_drawn_as_they_are[1:]",
        "tests/iceberg/maintenance/test_rewrite_data_files.py::test_row_ids_that_are_assigned_meanwhile[%3]",
        "tests/iceberg/maintenance/test_sorted_rewrite.py::test_concurrent_deletes_follow_the_rows[%3]",
        "tests/iceberg/maintenance/test_sorted_rewrite.py::test_rows_are_sorted_and_do_not_change[%5]",
        "tests/iceberg/maintenance/test_sorted_rewrite.py::test_the_order_is_that_of_the_specification[%7]",
        "tests/iceberg/maintenance/test_unknown_metadata.py::test_clean_up_of_one_catalog_keeps_the_diverged_state_of_the_other[%5]",
        "tests/iceberg/manifest/test_manifests.py::test_copied_entries_are_those_that_are_decoded_and_written_again[%5]",
        "tests/iceberg/scans/test_explain.py::test_results_count_what_their_verb_reads[%3]",
        "tests/iceberg/scans/test_explain.py::test_what_is_read_is_what_the_scan_reads[%3]",
        "tests/parquet/test_column_pages.py::test_a_damaged_page_is_what_pyarrow_makes_of_it[%5]",
        "tests/parquet/test_column_pages.py::test_delta_encodings_are_what_pyarrow_reads[%5]",
        "tests/parquet/test_column_pages.py::test_delta_pages_that_are_damaged_are_refused_or_what_pyarrow_reads[%3]",
        "tests/parquet/test_column_pages.py::test_wanted_rows_are_what_pyarrow_reads[%13]",
        "tests/parquet/test_unknown_fields.py::test_unknown_fields_change_nothing[%3]",
        "tests/rows/files/test_formats.py::test_a_column_of_any_arrow_schema_in_a_file_is_read[%5]",
        "tests/rows/files/test_joined_files.py::test_rows_are_those_of_files_one_by_one[1:]",
        "tests/rows/files/test_reader.py::test_filters_find_the_rows_of_all_pages[%5]",
        "tests/rows/files/test_row_group_bounds.py::test_bounds_of_all_row_groups_are_those_of_each[%3]",
        "tests/rows/filters/test_filters.py::test_literals_between_two_values_and_beyond_all_are_compared_as_they_stand[%5]",
        "tests/rows/filters/test_filters_page.py::test_examples_select_some_rows_and_deletes_remove_the_same[%3]",
        "tests/rows/filters/test_grammar.py::test_like_has_the_meaning_of_sql_in_scans_and_deletes[%3]",
        "tests/rows/filters/test_hostile_settings.py::test_a_filter_means_the_same_rows_under_each_setting[%3]",
        "tests/rows/match/test_given_rows.py::test_every_layout_of_a_column_can_be_appended_deleted_from_and_upserted[%11]",
        "tests/rows/match/test_key_parts.py::test_a_feed_changes_what_a_dictionary_changes_in_parts_or_as_a_whole[%3]",
        "tests/rows/match/test_key_parts.py::test_parts_of_keys_delete_what_one_part_deletes[%7]",
        "tests/laws/test_executor.py[%9]",
        "tests/laws/test_spark.py[%8]",
        "tests/laws/test_threads.py[%3]",
        "tests/verbs/test_applied_changes.py::test_a_replica_is_equal_after_each_batch[%4]",
    ),
    "stores": (
        "tests/architecture/test_pages.py::test_catalogs_of_aws_take_deletes",
        "tests/architecture/test_pages.py::test_delta_tables_on_google_cloud_storage",
        "tests/delta/log/test_storage_on_s3.py[1:]",
        "tests/iceberg/index/test_index_on_s3.py",
        "tests/iceberg/scans/test_s3.py",
        "tests/iceberg/scans/test_s3.py::test_a_table_on_s3_is_written_and_read[1:]",
    ),
    "costs": (
        "tests/delta/scans/test_many_columns.py::test_verbs_take_a_linear_number_of_steps",
        "tests/delta/scans/test_plan.py::test_a_plan_is_freed_without_a_collection[1:]",
        "tests/hostile/test_parquet.py::test_mutated_parquet_files_give_an_error_with_their_path_or_rows",
        "tests/hostile[1:]",
        "tests/iceberg/delete_files/test_many_deletes.py::test_verbs_take_a_linear_number_of_steps[1:]",
        "tests/iceberg/maintenance/test_rewrite_memory.py",
        "tests/iceberg/scans/test_exit.py[1:]",
        "tests/iceberg/scans/test_many_columns.py",
        "tests/iceberg/scans/test_scan_memory.py",
        "tests/bitmap/test_limits.py",
        "tests/rows/files/test_coded_texts.py::test_texts_that_need_longer_offsets_than_their_type_has",
        "tests/rows/match/test_key_memory.py",
    ),
}
"""Groups of folders, files and test functions; the closest name of a test counts. Of each test function there, `make
test` runs the first case if the name ends in ``[1:]``, and each fourth case if it ends in ``[%4]``, from the first."""


class Case(NamedTuple):
    """Of an item: the folders, the file and the test function that it belongs to, and how many cases were before it."""

    names: tuple[str, ...]
    number: int


def _entries() -> Iterator[tuple[str, tuple[str, range]]]:
    for group, entries in DEEP.items():
        for entry in entries:
            name, first, each = re.fullmatch(r"([^\[]+)(?:\[(1:)\]|\[%(\d+)\])?", entry).groups()  # type: ignore[union-attr]
            yield name, (group, range(0, MOST_CASES, int(each)) if each else range(1 if first else 0))


MOST_CASES = 1_000_000

DEEP_NAMES = dict(_entries())
"""Of each name of `DEEP`: the group, and the numbers of the cases that `make test` runs all the same."""


def group_of(case: Case) -> str | None:
    """The group of `DEEP` that a test belongs to, None for tests of `make test`."""
    for name in reversed(case.names):
        if name in DEEP_NAMES:
            group, others = DEEP_NAMES[name]
            return None if case.number in others else group
    return None


def cases(items: Iterable[pytest.Item]) -> list[Case]:
    """The case of each of all collected items, in their order."""
    seen: Counter[str] = Counter()
    found = []
    for item in items:
        function, _, _ = item.nodeid.partition("[")
        file, _, _ = function.partition("::")
        folders = (str(folder) for folder in reversed(Path(file).parents))
        found.append(Case((*folders, file, function), seen[function]))
        seen[function] += 1
    return found


def in_check(path: Path) -> bool:
    """Whether `CHECK` names a file or a folder, or what is inside or above it."""
    named = path.relative_to(ROOT)
    return any(named.is_relative_to(part) or Path(part).is_relative_to(named) for part in CHECK)


# Options --------------------------------------------------------------------------------------------


def add_options(parser: pytest.Parser) -> None:
    options = parser.getgroup("lanes", "tests/lanes.py says what they run")
    options.addoption("--lane", choices=[*LANES], help="run the tests of a lane; without it, all tests run")
    options.addoption("--group", choices=[*DEEP], help="of the lane `deep`, run the tests of one group")
    options.addoption("--until", type=float, help="begin no test after this time, in seconds since the epoch")


def load_profile(config: pytest.Config) -> None:
    """Loads the lane's profile of hypothesis, unless the environment names one."""
    if "HYPOTHESIS_PROFILE" not in os.environ and (lane := config.getoption("lane")):
        hypothesis.settings.load_profile(LANES[lane])


def in_lane(item: pytest.Item, group: str | None, lane: str, wanted: str | None) -> bool:
    """Whether a lane runs an item, which belongs to a group of `DEEP`; of `deep`, perhaps one group is wanted."""
    if lane == "deep":
        return group is not None and wanted in (None, group)
    return group is None and not (
        lane == "check" and CHECK_HAS_NOT & {mark.name for mark in item.iter_markers()}
    )


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the items of the lane."""
    lane, wanted = config.getoption("lane"), config.getoption("group")
    if lane is None:
        return
    chosen, others = [], []
    for item, case in zip(items, cases(items), strict=True):
        (chosen if in_lane(item, group_of(case), lane, wanted) else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


OUT_OF_TIME = "left, because the time is up"


def refuse_late(config: pytest.Config) -> None:
    """Skips a test that would begin too late; `report` counts them."""
    until = config.getoption("until")
    if until is not None and time.time() > until:
        pytest.skip(OUT_OF_TIME)


def report(terminal: Any) -> None:
    """Prints the seconds of each file, and which tests `refuse_late` left."""
    if terminal.config.getoption("lane") is None:
        return
    seconds: Counter[str] = Counter()
    late: Counter[str] = Counter()
    for one in (one for reports in terminal.stats.values() for one in reports):
        if isinstance(one, pytest.TestReport):
            file, _, _ = one.nodeid.partition("::")
            seconds[file] += one.duration  # type: ignore[assignment]
            late[file] += one.skipped and OUT_OF_TIME in str(one.longrepr)
    terminal.section("seconds of each file")
    for file, taken in seconds.most_common():
        terminal.write_line(f"{taken:8.1f}  {file}")
    if n_left := late.total():
        terminal.section(f"{n_left} tests {OUT_OF_TIME}")
        for file, n_tests in (+late).items():
            terminal.write_line(f"{n_tests:8}  {file}")
