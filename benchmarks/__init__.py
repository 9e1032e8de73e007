"""Benchmarks: one module of cases per room, and a runner that pairs them with their peers."""
