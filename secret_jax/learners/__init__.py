"""Learners of the literature: CART, GUIDE, M5, PHD, RETIS, SUPPORT, conjunctions."""

from secret_jax.learners.cart import CartSplits
from secret_jax.learners.conjunctive import ConjunctiveSplits
from secret_jax.learners.guide import GuideSplits, SupportSplits
from secret_jax.learners.m5 import M5Linear, M5Pruning, M5Splits
from secret_jax.learners.phd import PhdSplits
from secret_jax.learners.retis import RetisSplits

__all__ = [
    "CartSplits",
    "ConjunctiveSplits",
    "GuideSplits",
    "M5Linear",
    "M5Pruning",
    "M5Splits",
    "PhdSplits",
    "RetisSplits",
    "SupportSplits",
]
