"""The tree as a program: Python or SQL."""
