"""Draws the plots of the README from a report of the runner."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bench_data.positions import WORKLOADS
from benchmarks.rounds import OURS

JOBS = (
    "encode sorted",
    "encode unsorted",
    "decode, out=",
    "packed mask",
    "union of 2",
    "contains, random queries",
    "batch encode",
)


def draw(report: dict[str, Any], out: Path) -> list[Path]:
    """Writes the plots of what the report holds."""
    drawn = [_ratios(report, out / "ratios.png")]
    if report.get("growth"):
        drawn.append(_growth(report["growth"], out / "growth.png"))
    return [path for path in drawn if path]


def _ratios(report: dict[str, Any], path: Path) -> Path | None:
    """One panel per job: how many times each peer's time is ours; the line is equality."""
    jobs = {
        job: [row for row in report["rows"] if row.get("job") == job and "error" not in row] for job in JOBS
    }
    jobs = {job: _largest(rows) for job, rows in jobs.items() if rows}
    if not jobs:
        return None
    figure, axes = plt.subplots(len(jobs), 1, figsize=(12, 2.6 * len(jobs)), squeeze=False)
    for axis, (job, all_rows) in zip(axes[:, 0], jobs.items(), strict=True):
        names = [peer for peer in all_rows[0]["ns_per_unit"] if peer != OURS]
        rows = [row for row in all_rows if any(peer in row["ratios"] for peer in names)]
        width = 0.8 / max(1, len(names))
        for i, peer in enumerate(names):
            places = [x + (i - (len(names) - 1) / 2) * width for x in range(len(rows))]
            axis.bar(places, [row["ratios"].get(peer, 0) for row in rows], width, label=peer)
        for x, row in enumerate(rows):
            for target in row["targets"]:
                axis.plot([x - 0.4, x + 0.4], [target["target"]] * 2, color="black", linewidth=1)
        axis.axhline(1, color="grey", linewidth=0.8)
        axis.set_yscale("log")
        labels = [_label(row["workload"]) for row in rows]
        axis.set_xticks(range(len(rows)), labels, fontsize=6)
        axis.set_ylabel("times faster", fontsize=8)
        axis.set_title(f"{job} (black: the target)", fontsize=9, loc="left")
        axis.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1, 1))
    about = report["machine"]
    machine = f"{about['cpu']} ({about.get('simd', '')}), {about['cores']} cores, commit {about['commit']}"
    figure.suptitle(machine, fontsize=8)
    return _save(figure, path)


def _label(workload: str) -> str:
    """The name of a workload in words: results have its letter."""
    letter, _, size = workload.partition(" ")
    what = WORKLOADS[letter][0] if letter in WORKLOADS else letter
    return textwrap.fill(f"{what} {size}", 14)


def _largest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the largest size per workload letter."""
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        letter = row["workload"].split()[0]
        if letter not in best or row["count"] > best[letter]["count"]:
            best[letter] = row
    return list(best.values())


def _growth(curves: dict[str, list[tuple[int, float]]], path: Path) -> Path:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for name, points in curves.items():
        axis = right if " of " in name else left
        axis.plot([n for n, _ in points], [seconds * 1e3 for _, seconds in points], marker="o", label=name)
    for axis, what in ((left, "positions"), (right, "containers")):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(what)
        axis.set_ylabel("milliseconds")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
        _slope(axis)
    return _save(figure, path)


def _slope(axis: Any) -> None:
    """A dotted line of linear growth through the middle of the plot."""
    (low, high), (bottom, top) = axis.get_xlim(), axis.get_ylim()
    middle = (low * high) ** 0.5, (bottom * top) ** 0.5
    axis.plot([low, high], [middle[1] * low / middle[0], middle[1] * high / middle[0]], ":", color="grey")
    axis.set_xlim(low, high)
    axis.set_ylim(bottom, top)


def _save(figure: Any, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
