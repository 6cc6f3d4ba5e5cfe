"""Learners of the literature and others, side by side."""
