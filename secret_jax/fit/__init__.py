"""From a plan and rows to a fitted tree: the way of the data."""
