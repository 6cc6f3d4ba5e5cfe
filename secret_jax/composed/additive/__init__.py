"""Sums of one-column curves, with a tree for what they leave."""
