"""Kernel regression over the leaves of a fitted tree."""
