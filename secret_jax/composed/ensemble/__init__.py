"""Ensembles of trees: boosters and forests."""
