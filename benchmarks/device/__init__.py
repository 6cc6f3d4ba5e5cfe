"""Accelerators: what one brings, and what a fit would ask of one that is not there."""
