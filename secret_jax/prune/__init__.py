"""Pruning rules: each a frozen value that says which subtree is kept."""
