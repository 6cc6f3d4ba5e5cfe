"""Inspection of fitted trees: text, tables, pictures, programs, explanations."""
