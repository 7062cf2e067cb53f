"""Benchmarks: run by hand, they print tables. No test times anything; see README.md."""
