"""Fitting a tree: from a plan and rows to the result."""
