"""Rows of the nodes of a level, and the sums over them."""
