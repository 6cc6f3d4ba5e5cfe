"""Benchmarks of accuracy and of time; `README.md` beside this file says how to run."""
