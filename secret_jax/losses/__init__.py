"""Losses: the meaning of a tree's raw predictions, and the cost of errors."""
