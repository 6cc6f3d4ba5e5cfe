"""Leaf models, and the sufficient statistics that they are fitted from."""
