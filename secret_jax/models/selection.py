"""Forward selection of the terms of linear models, for many nodes at once."""

import numpy as np
from jaxtyping import Float, Int

# Terms whose worth differs by a smaller share are worth the same.
TIE = 1e-6
# Regressors are standardised over the table: a smaller variance is rounding.
CONSTANT = 1e-10


def selected_forward(
    gram: Float[np.ndarray, "n_nodes n_terms n_terms"],
    moment: Float[np.ndarray, "n_nodes n_terms"],
    unexplained: Float[np.ndarray, " n_nodes"],
    limit: Float[np.ndarray, " n_nodes"],
    copy: float | Float[np.ndarray, "n_nodes 1"],
    most: int | None = None,
) -> tuple[Int[np.ndarray, "n_nodes n_steps"], Float[np.ndarray, " n_nodes"]]:
    """Select terms by pivoted partial Cholesky; return them and what is unexplained.

    Each step adds the term that explains most; of ties the first.

    ``gram``, ``moment``: products of the terms, and of the terms with what is to be
    explained; ``unexplained``, ``limit``: variance to explain; a node is done when no
    more than the limit is left of it; ``copy``: a term is a copy of others if they
    leave no more than this share of its variance unexplained, and is not chosen;
    ``most``: number of terms at which to end. Returns ``chosen``: -1 after the last one
    of a node.
    """
    n_nodes, n_terms = moment.shape
    node = np.arange(n_nodes)
    variance = np.einsum("nii->ni", gram)
    left, moment, unexplained = variance.copy(), moment.copy(), unexplained.copy()
    n_steps = n_terms if most is None else most
    factors = np.empty((n_nodes, n_steps, n_terms))
    chosen, waiting = np.full((n_nodes, n_steps), -1), variance > CONSTANT
    for step in range(n_steps):
        usable = waiting & (left > copy * variance)
        worth = np.where(usable, moment**2 / np.where(usable, left, 1.0), 0.0)
        greatest = worth.max(axis=1, initial=0.0)
        going = (unexplained > limit) & (greatest > 0)
        if not going.any():
            break
        best = np.argmax(worth >= (1.0 - TIE) * greatest[:, None], axis=1)
        chosen[going, step], waiting[node, best] = best[going], False
        pivot = np.sqrt(np.where(going, left[node, best], np.inf))
        before = factors[:, :step]
        known = (before[node, :, best][:, None] @ before)[:, 0]
        factors[:, step] = column = (gram[node, best] - known) / pivot[:, None]
        rest = moment[node, best] / pivot
        moment -= rest[:, None] * column
        left -= column**2
        unexplained -= rest**2
    return chosen, unexplained
