"""Fits of rows that exceed memory or one process: read twice, in batches."""
