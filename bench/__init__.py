"""Benchmarks, one file per suite."""
