"""Refinement of a fitted tree as a whole."""
