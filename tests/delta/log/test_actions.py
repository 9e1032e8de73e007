"""Each value of each log action of ours is Spark's for the same operation, or has a reason to differ."""

# ruff: noqa: E501
from __future__ import annotations

import re
from pathlib import Path

from tests.delta.log.log_actions import KINDS, by_us, differences

GOLDEN = Path(__file__).parents[2] / "golden/delta"

EXPLAINED = {
    r"\w+ \d+: commitInfo.isolationLevel: 'WriteSerializable' <> 'Serializable'": "the level at which we look for conflicts",
    r"\w+ \d+: commitInfo.operationParameters.predicate\(json\): .+ <> .*#.*": "the filter's text; Spark's has numbers of expressions",
    r"\w+ \d+: commitInfo.operationMetrics.(execution|scan|rewrite)TimeMs: 'absent' <> .*": "not measured",
    r"WRITE \d+: commitInfo.operationParameters.partitionBy\(json\): \['part'\] <> \[\]": "of the table; Spark's of the writer",
    r"WRITE \d+: commitInfo.tags.delta.rowTracking.preserved: 'true' <> 'absent'": "an append changes no row id",
    r"(checkpoint|\w+) \d+: domainMetadata.configuration\(json\).domainName: 'absent' <> .*": "the protocol has only the mark",
    r"\w+ \d+: (add|remove).path: .*zstd.parquet' <> .*snappy.parquet'": "another codec, named so",
    r".*add.stats\(json\).maxValues.at: '.*124Z' <> '.*123Z'": "rounded up; Spark cuts, and its readers add 1 ms",
    r"checkpoint \d+: (columns.)?add.(stats|partitionValues)_parsed.*: 'absent' <> .*": "optional; readers take the JSON",
    r"checkpoint \d+: columns.(add|remove).deletionVector.maxRowIndex: 'absent' <> 'int64'": "not in the protocol",
    r"checkpoint \d+: (columns.)?remove.(tags|stats).*: .* <> 'absent'": "kept from the log",
    r"UPDATE \d+: commitInfo.operationMetrics.numRemovedFiles: '0' <> '\d'": "the files stay, with vectors",
    r"MERGE \d+: commitInfo.operationParameters.(matched|notMatched|notMatchedBySource)Predicates: 'absent' <> .*": "there are no clauses",
    r"MERGE \d+: commitInfo.operationMetrics.(materializeSourceTimeMs|numSourceRows): 'absent' <> .*": "not measured",
    r"WRITE \d+: commitInfo.operationMetrics.num(Files: '1' <> '2'|CopiedRows: '0' <> '50'|OutputRows: '10' <> '60')": "a vector; Spark copies rows",
    r"WRITE 7: commitInfo.operationMetrics.num(Files: '3' <> '6'|CopiedRows: '0' <> '54'|OutputRows: '3' <> '57')": "as above, in each partition",
    r"WRITE (9|10): commitInfo.operationMetrics.num(DeletedRows|CopiedRows|AddedChangeFiles): .* <> 'absent'": "counted for each overwrite",
    r"WRITE (9|10): remove.stats\(json\).numRecords: \d+ <> 'absent'": "as for deletes; Spark has it there only",
    r"(UPDATE|MERGE) \d+: (cdc actions|commitInfo.operationMetrics.num\w*ChangeFilesAdded|commitInfo.operationMetrics.numAddedChangeFiles): .*": "a file for each kind of change; Spark has one for all of a partition",
    r"(UPDATE|MERGE) \d+: cdc.partitionValues.col-UUID: .*": "more files, as above, in another order",
    r"(UPDATE|MERGE) \d+: cdc.path: '_change_data/.*' <> '\w\w/cdc-.*'": "Spark has random folders for tables with column mapping",
    r"(MERGE 5|OPTIMIZE 6|WRITE [79]|DELETE 8|checkpoint 0): (add|remove).(baseRowId|defaultRowCommitVersion): \d+ <> \d+": "the partitions of a commit are numbered in another order",
    r"_last_checkpoint.(checkpointSchema|checksum): 'absent' <> .*": "optional",
}  # fmt: skip
"""By a pattern of differences, ours <> Spark's: the reason."""


def test_log_actions_differ_from_those_of_spark_only_with_a_reason(tmp_path: Path) -> None:
    unused, unexplained = {*EXPLAINED}, list[str]()
    for name, kind in KINDS.items():
        by_us(tmp_path / name, kind)
        for place, (ours, theirs) in differences(tmp_path / name, GOLDEN / name).items():
            line = f"{place}: {ours!r} <> {theirs!r}"
            reasons = {pattern for pattern in EXPLAINED if re.fullmatch(pattern, line, re.DOTALL)}
            unused -= reasons
            if not reasons:
                unexplained.append(f"{name}: {line}")
    assert not unexplained, "\n".join(unexplained)
    assert not unused
