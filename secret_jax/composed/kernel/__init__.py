"""Kernel models over the regions of a fitted tree."""

from secret_jax.composed.kernel.interface import Head as Head
from secret_jax.composed.kernel.networks import GaussianProcess as GaussianProcess
from secret_jax.composed.kernel.networks import RadialBasis as RadialBasis
from secret_jax.composed.kernel.search import GeneticSearch as GeneticSearch
from secret_jax.composed.kernel.search import GreedySearch as GreedySearch
from secret_jax.composed.kernel.search import Search as Search
from secret_jax.composed.kernel.smoothing import Smoothing as Smoothing
