"""Forests: the mean of trees of bags of rows, split on random attributes."""
