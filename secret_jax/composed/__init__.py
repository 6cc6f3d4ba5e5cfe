"""Estimators composed of a tree and another model, in front of it or over it."""
