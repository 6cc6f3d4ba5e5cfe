"""Learners of the literature: CART, GUIDE, M5, PHD, RETIS, SUPPORT, conjunctions."""

from secret_jax.learners.cart import CartSplits as CartSplits
from secret_jax.learners.conjunctive import ConjunctiveSplits as ConjunctiveSplits
from secret_jax.learners.guide import GuideSplits as GuideSplits
from secret_jax.learners.m5 import M5Splits as M5Splits
from secret_jax.learners.m5_leaves import M5Linear as M5Linear
from secret_jax.learners.m5_pruning import M5Pruning as M5Pruning
from secret_jax.learners.phd import PhdSplits as PhdSplits
from secret_jax.learners.retis import RetisSplits as RetisSplits
from secret_jax.learners.support import SupportSplits as SupportSplits
