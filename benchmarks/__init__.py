"""Benchmarks: one module of cases per package, and a runner that pairs them with their peers."""
