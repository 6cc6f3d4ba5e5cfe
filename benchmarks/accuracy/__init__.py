"""Errors beside other packages, with missing cells, and of conformal intervals."""
