"""Soft trees: gates and leaves trained jointly by gradient descent."""
