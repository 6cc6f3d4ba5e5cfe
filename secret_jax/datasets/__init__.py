"""Data of section 5.1 of Dobra & Gehrke 2002: three synthetic sets, and real ones."""

from secret_jax.datasets.generators import make_3dsin, make_cart, make_fried
from secret_jax.datasets.loading import Dataset, available, load

__all__ = ["Dataset", "available", "load", "make_3dsin", "make_cart", "make_fried"]
