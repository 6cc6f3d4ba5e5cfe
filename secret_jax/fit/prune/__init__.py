"""Pruning rules: frozen values that choose a subtree of a grown tree."""
