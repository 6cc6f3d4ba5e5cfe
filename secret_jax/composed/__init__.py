"""Estimators made of trees: boosters, forests, kernels over one, classes in order."""
