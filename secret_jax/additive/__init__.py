"""Additive stage: sums of one-column curves fitted in front of a tree."""
