"""Refinements of a fitted tree: distillation, new splits, blended or trained gates."""
