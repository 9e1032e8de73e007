"""Seeded inputs of the benchmarks, generated on demand and never committed: see `positions`."""

from bench_data.positions import SIZES, WORKLOADS, load, sizes

__all__ = ["SIZES", "WORKLOADS", "load", "sizes"]
