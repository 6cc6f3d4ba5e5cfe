"""Sums and means of trees: boosters and forests."""
