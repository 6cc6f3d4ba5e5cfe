"""Estimators composed of a tree and another model over it."""
