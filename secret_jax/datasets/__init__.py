"""Example data: the paper's synthetic sets, and real ones from files or OpenML.

Section 5.1 of Dobra & Gehrke 2002 uses three synthetic sets, made here by `make_3dsin`,
`make_fried` and `make_cart`, and nine real ones, which `load` reads.
"""

from secret_jax.datasets.generators import make_3dsin, make_cart, make_fried
from secret_jax.datasets.loading import Dataset, available, load

__all__ = ["Dataset", "available", "load", "make_3dsin", "make_cart", "make_fried"]
