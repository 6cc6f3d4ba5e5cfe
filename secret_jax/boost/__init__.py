"""Boosted linear trees: many small trees that add up, and one that learned them."""
