"""The tables and the picture of figures in documents, made from ``benchmarks/results``: one row for each figure."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

RESULTS = Path(__file__).parent / "results"
OURS = "puffin_fast"

JAVA, TABLE_STATS = "Java on Spark local[2]", "Java compute_table_stats"
DISTINCT = "DuckDB approx_count_distinct"
NUMPY, SCATTER = "pyroaring from NumPy", "pyroaring decode + NumPy scatter"
NAIVE = "naive pyroaring"
NAMES = {
    JAVA: "Iceberg's Java on Spark",
    TABLE_STATS: "Iceberg's Java on Spark",
    DISTINCT: "DuckDB's `approx_count_distinct`",
    SCATTER: "pyroaring and a NumPy scatter",
    NAIVE: "pyroaring in `applyInArrow`",
    "loop": "a loop over pyroaring",
    "rows at known positions": "reading these rows at known positions",
    "DuckDB, two scans compared": "two scans, compared in DuckDB",
    "deltalake, with a feed": "deltalake's `load_cdf`, with a feed",
    "PyIceberg, to accelerated": "PyIceberg",
    "full run": "a full run",
    "DuckDB, without a plan": "DuckDB",
    "without an index": "the same without an index",
    "0.25 s": "0.25 s of CPU time",
    "7 s": "7 s of CPU time",
    "plan of the table": "planning a scan of the table",
}
"""The names of contenders as readers see them, where the results name them shorter."""


class Figure(NamedTuple):
    """One row of a table: what was done, and which measurement shows it."""

    job: str
    case: str
    peer: str


def _kernels(job: str, case: str, peer: str, workloads: str) -> list[Figure]:
    return [
        Figure(f"{job}: {WORKLOADS[letter]}", f"{case} | {letter} 10,000,000", peer) for letter in workloads
    ]


WORKLOADS = {
    "a": "sparse",
    "b": "10% of the rows",
    "c": "50% of the rows",
    "d": "runs",
    "e": "one contiguous range",
    "f": "64 keys",
    "g": "10% of the rows",
    "h": "sparse, in a range of 4G",
}
LINEITEM = "lineitem at scale 0.5, "
FILES = ", 1000 files"
BLOOM = " in 200 files with Bloom filters"
CHANGES = "changes, Iceberg"
WHOLE = ", 40,000,000 rows in 1000 files"
LARGE = ", 40,000,000 rows in 40 files"
TENTH = ", 4,000,000 rows in 100 files"
UNINDEXED, UNPLANNED = "without an index", "DuckDB, without a plan"
POSITIONS, COMPARED, FEED = "rows at known positions", "DuckDB, two scans compared", "deltalake, with a feed"
VECTORS, WARM = " files with as many vectors", "Iceberg's Java, warm"
FRAME = "DataFrame to vectors, 20,000,000 rows, "
TEN = " on Spark, 10,000,000 rows"

TABLES: dict[str, list[Figure]] = {
    "short": [
        Figure("encode 10M positions, 10% of the rows", "encode sorted | b 10,000,000", NUMPY),
        Figure("decode them, all checks on", "decode, out= | b 10,000,000", "pyroaring"),
        Figure("scan 10M rows, 1M deleted, into Arrow", "scan, 1M deleted", "PyIceberg"),
        Figure("scan 3M rows of 16 columns, 10% deleted", LINEITEM + "all columns", "DuckDB"),
        Figure("scan 40M rows in 1000 files, half deleted", "scan" + FILES, "DuckDB"),
        Figure("delete half of 40M rows by a filter", "delete half" + FILES, JAVA),
        Figure("delete half of 40M rows by a filter", "delete half" + FILES, "DuckDB"),
        Figure("update 1% of 40M rows by a filter", "update 1%" + FILES, "DuckDB"),
        Figure("convert 20M position deletes to vectors", "convert" + FILES, JAVA),
        Figure("the same, both on Spark", "convert on Spark" + FILES, JAVA),
        Figure("on Spark: delete 1% of 10M rows by a Column", "delete, column %" + TEN, JAVA),
        Figure("the same by text", "delete, text" + TEN, JAVA),
        Figure("delete 10,000 of them by keys", "keys" + TEN, JAVA),
        Figure("update 1% of them by a Column", "update, a column" + TEN, JAVA),
        Figure("upsert 100,000", "upsert" + TEN, JAVA),
        Figure("upsert a micro-batch of 50", "batch" + TEN, JAVA),
        Figure("NDV statistics of 12M rows, 16 columns", "NDV, lineitem x 2", TABLE_STATS),
    ],
    "kernels": [
        *_kernels("encode sorted positions", "encode sorted", NUMPY, "abcdef"),
        *_kernels("encode shuffled positions", "encode unsorted", "CRoaring", "gh"),
        *_kernels("decode into `out=`, all checks on", "decode, out=", "pyroaring", "abcdef"),
        *_kernels("packed mask", "packed mask", SCATTER, "bcd"),
        *_kernels("union of two blobs", "union of 2", "CRoaring", "abcd"),
        *_kernels("contains, 2M random queries", "contains, random queries", "CRoaring", "abcdef"),
        Figure("200,000 vectors of 100 positions", "batch encode | 200,000 vectors of 100", "loop"),
    ],
    "iceberg": [
        Figure("scan 10M rows, 1M deleted, into Arrow", "scan, 1M deleted", "PyIceberg"),
        Figure(
            "the same by PyIceberg's scan under `accelerate()`",
            "scan, 1M deleted",
            "PyIceberg, to accelerated",
        ),
        Figure("scan 40M rows in 1000 files, half deleted, into Arrow", "scan" + FILES, "DuckDB"),
        Figure("scan 3M rows of lineitem, 10% deleted, into Arrow", LINEITEM + "all columns", "DuckDB"),
        Figure("the same with 95% deleted", LINEITEM + "95% deleted", "DuckDB"),
        Figure("the same with 10% deleted: 3 columns", LINEITEM + "3 columns", "DuckDB"),
        Figure("the same: 11 numeric columns", LINEITEM + "11 numeric columns", "DuckDB"),
        Figure("the same: a filter that 2% of the rows pass", LINEITEM + "2% filter", "DuckDB"),
        Figure("delete what that filter selects", LINEITEM + "delete by the 2% filter", "DuckDB"),
        Figure("delete half of 40M rows in 1000 files", "delete half" + FILES, "DuckDB"),
        Figure("the same", "delete half" + FILES, JAVA),
        Figure("then delete a third of the rest", "delete a third" + FILES, "DuckDB"),
        Figure("the same", "delete a third" + FILES, JAVA),
        Figure("delete 2M of 40M rows by keys", "delete 5% by key" + FILES, "DuckDB"),
        Figure("upsert 2M of 40M rows", "upsert 5%" + FILES, "DuckDB"),
        Figure("update 1% of 40M rows by a filter", "update 1%" + FILES, "DuckDB"),
        Figure("scan 200 files with Bloom filters for one key", "scan for one key" + BLOOM, "DuckDB"),
        Figure("the same for ten keys", "scan for ten keys" + BLOOM, "DuckDB"),
        Figure("convert 20M position deletes of 1000 files to vectors", "convert" + FILES, JAVA),
        Figure(
            "plan 100,000 files with as many vectors", "plan 100000 files with as many vectors", "PyIceberg"
        ),
        Figure("the same with a filter that a tenth pass", "plan a tenth of 100000 files", "PyIceberg"),
        Figure("plan 300,000 files with as many vectors", "plan 300000" + VECTORS, WARM),
        Figure("the same with a filter that 10 files pass", "plan 10 of 300000 files", WARM),
        Figure("delete a row of one of 300,000 files", "delete a row of one of 300000 files", "0.25 s"),
        Figure("plan 2,500,000 files with as many vectors", "plan 2500000" + VECTORS, "7 s"),
        Figure("one vector to a mask of bits", "vector to Arrow mask", "PyIceberg"),
        Figure("one vector to a mask of bytes", "vector to mask", "PyIceberg"),
    ],
    "spark": [
        Figure("convert 20M position deletes to vectors", "convert on Spark" + FILES, JAVA),
        Figure("delete half of 40M rows by a filter", "delete on Spark" + FILES, JAVA),
        Figure("delete 2M of 40M rows by keys", "keys on Spark" + FILES, JAVA),
        Figure("20M rows of a DataFrame to vectors of 1000 files", FRAME + "1000 files", NAIVE),
        Figure("the same, half of the rows in one file", FRAME + "1000 files, half in one", NAIVE),
        Figure("the same, 200,000 files", FRAME + "files of 100 rows", NAIVE),
    ],
    "delta": [
        Figure("scan 10M rows, 1M deleted, into Arrow: 10 files", "Delta scan, 10 files", "DuckDB"),
        Figure("the same", "Delta scan, 10 files", "deltalake"),
        Figure("the same", "Delta scan, 10 files", "Polars"),
        Figure("the same rows in 1000 files", "Delta scan, 1000 files", "DuckDB"),
        Figure("the same rows in 5000 files", "Delta scan, 5000 files", "DuckDB"),
        Figure("scan 1000 files of 100 rows", "Delta scan, 1000 tiny files", "DuckDB"),
        Figure("delete 1M of 10M rows in 10 files", "Delta delete", "deltalake"),
        Figure(
            "plan 100,000 files with as many vectors, a filter that none passes",
            "Delta plan, a filter",
            "DuckDB",
        ),
        Figure("the same", "Delta plan, a filter", "deltalake"),
        Figure("without a filter, as columns; the peers with their filter", "Delta plan", "DuckDB"),
        Figure("the same", "Delta plan", "deltalake"),
        Figure("the same as 100,000 objects", "Delta plan, as objects", "DuckDB"),
        Figure("the same", "Delta plan, as objects", "deltalake"),
    ],
    "changes": [
        Figure("lines of a delete and an update of 1% of 40M rows: Iceberg", CHANGES + WHOLE, POSITIONS),
        Figure("the same", CHANGES + WHOLE, COMPARED),
        Figure("of 4M rows in 100 files: Iceberg", CHANGES + TENTH, POSITIONS),
        Figure("the same", CHANGES + TENTH, COMPARED),
        Figure(
            "the same",
            "changes, Iceberg and Spark" + TENTH,
            "Iceberg's changelog view on Spark, of copies on write",
        ),
        Figure("their number for the delete", "count of deletes, Iceberg" + TENTH, POSITIONS),
        Figure("the same lines: Delta, without a feed", "changes, Delta" + TENTH, POSITIONS),
        Figure("the same", "changes, Delta" + TENTH, COMPARED),
        Figure("the same", "changes, Delta" + TENTH, FEED),
        Figure("the same", "changes, Delta and Spark" + TENTH, "Delta's feed on Spark"),
        Figure(
            "net lines across a rewrite of all data files",
            "net changes across a rewrite, Iceberg" + TENTH,
            COMPARED,
        ),
        Figure("find 10 changed files of 100,000", "plan of changes of 100,000 files", "plan of the table"),
    ],
    "keys": [
        Figure("`delete_keys` of 10 integers, 1000 files", "keys: 10 integers" + WHOLE, UNINDEXED),
        Figure("the same", "keys: 10 integers" + WHOLE, UNPLANNED),
        Figure("100 integers, 1000 files", "keys: 100 integers" + WHOLE, UNINDEXED),
        Figure("the same", "keys: 100 integers" + WHOLE, UNPLANNED),
        Figure("100 integers, 40 files", "keys: 100 integers" + LARGE, UNINDEXED),
        Figure("the same", "keys: 100 integers" + LARGE, UNPLANNED),
        Figure("100,000 integers, 1000 files", "keys: 100,000 integers" + WHOLE, UNPLANNED),
        Figure("100 strings of 32 bytes, 1000 files", "keys: 100 strings" + WHOLE, UNPLANNED),
        Figure("the same, 40 files", "keys: 100 strings" + LARGE, UNPLANNED),
        Figure("`scan` of one row, 1000 files", "keys: the row of an integer" + WHOLE, UNINDEXED),
        Figure("the same, 40 files", "keys: the row of an integer" + LARGE, UNINDEXED),
        Figure(
            "`upsert` of 1,000 rows, half of them new", "keys: upsert of 1,000 integers" + WHOLE, UNPLANNED
        ),
        Figure("of 100,000 rows", "keys: upsert of 100,000 integers" + WHOLE, UNPLANNED),
        Figure(
            "`convert_equality_deletes` of 1,000 integers",
            "keys: equality deletes of 1,000 integers" + WHOLE,
            UNINDEXED,
        ),
    ],
    "ndv": [
        Figure("NDV statistics of 12M rows, 16 columns", "NDV, lineitem x 2", TABLE_STATS),
        Figure("the same", "NDV, lineitem x 2", DISTINCT),
        Figure("the same without dictionary pages", "NDV, decoding, lineitem x 2", TABLE_STATS),
        Figure("the same", "NDV, decoding, lineitem x 2", DISTINCT),
        Figure("the same, both on Spark `local[2]`", "NDV on Spark, lineitem x 2", TABLE_STATS),
        Figure("the same after an append of 1%", "NDV, append of 1%, lineitem x 2", "full run"),
    ],
}


@cache
def measured() -> dict[tuple[str, str], tuple[float, float | None]]:
    """By case and peer the ratio of CPU times, and the target if there is one."""
    found: dict[tuple[str, str], tuple[float, float | None]] = {}
    for file in ("tables.json", "spark.json"):
        cases: dict[str, dict[str, Any]] = json.loads((RESULTS / file).read_text())
        for case, result in cases.items():
            contenders = result["contenders"]
            for peer, contender in contenders.items():
                found[case, peer] = contender.get("cpu", 0) / contenders[OURS]["cpu"], None
            for target in result["targets"]:
                found[case, target["peer"]] = target.get("cpu_ratio", target["ratio"]), target["target"]
    for row in json.loads((RESULTS / "results.json").read_text())["rows"]:
        targets = {target["peer"]: target["target"] for target in row["targets"]}
        for peer, ratio in row["ratios"].items():
            found[f"{row['job']} | {row['workload']}", peer] = ratio, targets.get(peer)
    return found


def shown(ratio: float) -> str:
    """A ratio with as many digits as say something."""
    return f"{ratio:.{2 if ratio < 2 else 1 if ratio < 10 else 0}f}"


def table(name: str) -> str:
    """A table of figures as Markdown; a ratio that misses its target is bold."""
    with_targets = name != "short"
    lines = ["| job | compared with | times faster |" + (" target |" if with_targets else "")]
    lines.append("|---|---|---:|" + ("---:|" if with_targets else ""))
    for figure in TABLES[name]:
        ratio, target = measured()[figure.case, figure.peer]
        text = shown(ratio)
        if with_targets and target is not None and float(text) < target:
            text = f"**{text}**"
        peer = NAMES.get(figure.peer, figure.peer).removesuffix(" from NumPy")
        line = f"| {figure.job} | {peer} | {text} |"
        lines.append(line + (f" {f'{target:g}' if target else '-'} |" if with_targets else ""))
    return "\n".join(lines) + "\n"


CHANGES_ON_SPARK = {
    "delete, column %": "delete 1% by `col % 100 == 7`",
    "delete, column <": "delete 1% by `col < 10000`",
    "delete, text": "the same by text",
    "delete, expression": "the same by PyIceberg's expression",
    "keys": "delete 10,000 keys of a DataFrame; `DELETE … IN (SELECT …)`",
    "keys, MERGE": "the same; `MERGE`",
    "update, a value": "update 1% to a value",
    "update, a column": "update 1% to twice the value, by a Column",
    "upsert": "upsert 100,000 rows, half of them new; `MERGE`",
    "batch": "a micro-batch of 50 rows in `foreachBatch`; `MERGE`",
}
"""What the jobs of `bench_spark_dml` do."""
SETTINGS = (TEN, TEN + ", local-cluster[2,1,1024]", " on Spark, 100,000,000 rows")


def changes_on_spark() -> str:
    """By job and setting our seconds, those of Iceberg, and their ratio; what misses its target is bold."""
    cases: dict[str, dict[str, Any]] = json.loads((RESULTS / "spark.json").read_text())
    lines = [
        "| job | 10M rows, `local[2]` | 10M rows, `local-cluster[2,1,1024]` | 100M rows, `local[2]` | target |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, job in CHANGES_ON_SPARK.items():
        cells, target = [], 0.0
        for setting in SETTINGS:
            case = cases[name + setting]
            ours, peers = (case["contenders"][who]["seconds"] for who in (OURS, JAVA))
            target, ratio = case["targets"][0]["target"], shown(peers / ours)
            ratio = f"**{ratio}**" if float(ratio) < target else ratio
            cells.append(f"{ours:.2f} s, {peers:.2f} s: {ratio}")
        lines.append(f"| {job} | {' | '.join(cells)} | {target:g} |")
    return "\n".join(lines) + "\n"


TIMES, MEMORY = "shapes: ", "peak memory: "
"""The cases of `bench_shapes`: the shape, a comma, and the job follow."""


PEERS = ("DuckDB", "PyIceberg", "Polars", "deltalake", "PyArrow")
"""Who is compared in them."""


def shapes() -> str:
    """A table of the shapes: CPU time of ours, and that of each peer as a multiple; what is below 1 is bold."""
    lines = [f"| shape | job | CPU ms | {' | '.join(PEERS)} |", f"|---|---|---:|{'---:|' * len(PEERS)}"]
    for shape, job, contenders in _shapes("tables.json", TIMES):
        ours, cells = contenders[OURS]["cpu"], []
        for peer in PEERS:
            ratio = contenders[peer]["cpu"] / ours if peer in contenders else None
            cells.append(
                "-" if ratio is None else shown(ratio) if float(shown(ratio)) >= 1 else f"**{shown(ratio)}**"
            )
        lines.append(
            f"| {shape} | {job} | {1000 * ours:.{0 if ours >= 0.01 else 1}f} | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"


def shapes_memory() -> str:
    """A table of shapes with the peak memory of each contender, in MB."""
    lines = [f"| shape | job | MB | {' | '.join(PEERS)} |", f"|---|---|---:|{'---:|' * len(PEERS)}"]
    for shape, job, contenders in _shapes("memory.json", MEMORY):
        peaks = (f"{contenders[one]['peak_mb']:.0f}" if one in contenders else "-" for one in (OURS, *PEERS))
        lines.append(f"| {shape} | {job} | {' | '.join(peaks)} |")
    return "\n".join(lines) + "\n"


def _shapes(file: str, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
    """The cases of a kind: the shape, the job and the contenders."""
    cases: dict[str, dict[str, Any]] = json.loads((RESULTS / file).read_text())
    names = sorted(name.removeprefix(kind).rpartition(", ") for name in cases if name.startswith(kind))
    return [(shape, job, cases[f"{kind}{shape}, {job}"]["contenders"]) for shape, _, job in names]


FLOORS = {
    "update 1%, 1000 files": "update 1% of 40M rows in 1000 files",
    "upsert 5%, 1000 files": "upsert 2M of 40M rows in 1000 files",
    "Delta scan, 1000 tiny files": "Delta: scan 1000 files of 100 rows",
    LINEITEM + "2% filter": "lineitem: a filter that 2% of the rows pass",
}
"""The jobs of `bench_floors`."""
FLOOR = "floors: "
"""The cases of `bench_floors`, before the name of the job."""


def floors() -> str:
    """By job the CPU time on one thread, its floors, and what is left."""
    cases: dict[str, dict[str, Any]] = json.loads((RESULTS / "tables.json").read_text())
    lines = ["| job | CPU ms | opening, reading | decompressing | the rest |", "|---|---:|---:|---:|---:|"]
    for case, job in FLOORS.items():
        ours, *parts = (1000 * one["cpu"] for one in cases[FLOOR + case]["contenders"].values())
        cells = (f"{number:.{0 if number >= 10 else 1}f}" for number in (ours, *parts, ours - sum(parts)))
        lines.append(f"| {job} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


ON_STORE = {
    "all columns": "all columns of 24 files",
    "2 of 8 columns": "2 of 8 columns",
    "filter for 10 rows": "10 rows of one of the files",
    "10 rows of a large file": "10 rows of a file of 37 MB",
    "10 rows of a large file at 90 MB/s": "the same, 90 MB a second on each connection",
    "10 rows of a row group of 128 MiB": "10 rows of a file of 124 MB",
    "10 rows of a row group of 128 MiB at 90 MB/s": "the same, 90 MB a second on each connection",
}
"""The jobs of `bench_object_store`, as readers see them."""
CLIENTS = {OURS: "this package, `FsspecFileIO`", f"{OURS}, PyArrow": "this package, `PyArrowFileIO`"}


def object_store() -> str:
    """By job and contender the seconds, the requests, how many of them are one after another, and the bytes."""
    cases: dict[str, dict[str, Any]] = json.loads((RESULTS / "tables.json").read_text())
    lines = [
        "| scan | through | seconds | requests | one after another | MB |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for case, job in ON_STORE.items():
        for contender, found in cases[f"object store, 20 ms: {case}"]["contenders"].items():
            counts = f"{found['requests']:.0f} | {found['in_turn']:.0f} | {shown(found['bytes'] / 1e6)}"
            lines.append(
                f"| {job} | {CLIENTS.get(contender, contender)} | {found['seconds']:.2f} | {counts} |"
            )
    return "\n".join(lines) + "\n"


WIDTH, ROW, TOP = 520, 46, 34


def picture() -> str:
    """The figures of the short table as an SVG of bars on a logarithmic scale; the line is equality."""
    figures = TABLES["short"]
    ratios = [measured()[figure.case, figure.peer][0] for figure in figures]
    low, high = math.log(min(0.8, *ratios)), math.log(max(ratios))

    def place(ratio: float) -> float:
        return round(8 + (WIDTH - 60) * (math.log(ratio) - low) / (high - low), 1)

    height, one = TOP + ROW * len(figures), place(1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        "<style>text{font:14px sans-serif;fill:#37474f} .peer{fill:#78909c} .bar{fill:#3f51b5} .loss{fill:#c62828} "
        "line{stroke:#78909c;stroke-dasharray:4 3} "
        "@media (prefers-color-scheme:dark){text{fill:#cfd8dc} .bar{fill:#7986cb} .loss{fill:#ef9a9a}}</style>",
        f'<text x="{one + 4}" y="16" class="peer">times faster by CPU time, logarithmic; dashed: equally fast</text>',
        f'<line x1="{one}" y1="6" x2="{one}" y2="{height - 4}"/>',
    ]
    for number, (figure, ratio) in enumerate(zip(figures, ratios, strict=True)):
        top, end = TOP + ROW * number, place(ratio)
        left, width = min(one, end), round(abs(end - one), 1)
        peer = NAMES.get(figure.peer, figure.peer).removesuffix(" from NumPy")
        parts += [
            f'<text x="{one + 4}" y="{top + 12}">{escape(figure.job)} '
            f'<tspan class="peer">{escape(peer)}</tspan></text>',
            f'<rect class="{"bar" if ratio >= 1 else "loss"}" x="{left}" y="{top + 18}" width="{width}" height="16"/>',
            f'<text x="{max(one, end) + 5}" y="{top + 31}">{shown(ratio)}</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])
