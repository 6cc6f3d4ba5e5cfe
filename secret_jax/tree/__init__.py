"""Fitted trees: flat arrays, routing of rows, prediction and model files."""
