"""Seeded inputs of the benchmarks: `workload` makes them, ``manifest.json`` says what must come out."""

from bench_data.workloads import NAMES, SIZES, workload

__all__ = ["NAMES", "SIZES", "workload"]
