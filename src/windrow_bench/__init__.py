"""Benchmarks: ratios from one run, side by side with what they are compared with, on equal results."""

from windrow_bench.run import run_benchmarks

__all__ = ["run_benchmarks"]
