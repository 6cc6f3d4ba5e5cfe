"""Rows that do not fit into memory, or into one process: read twice, in pieces."""
