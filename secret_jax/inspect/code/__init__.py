"""Export of trees to programs: Python and SQL."""
