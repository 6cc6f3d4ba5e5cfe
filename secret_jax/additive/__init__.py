"""Sums of one-column curves that are taken from the target before a tree is grown."""
