"""The first command that is tried: a tree on real data of scikit-learn."""

import argparse
from typing import Any

import pandas as pd
from sklearn.datasets import load_breast_cancer

from secret_jax.cli.evaluation import evaluate, score_table
from secret_jax.cli.messages import PROGRAM, check_output, draw
from secret_jax.cli.rows import Rows
from secret_jax.estimators.regressor import SecretRegressor

_STORY = """\
How large are the largest cell nuclei of a tumour? Measured for 569 women (the breast
cancer data that comes with scikit-learn), and predicted from means and the diagnosis.
"""
_COLUMNS = ("radius", "texture", "smoothness", "concavity", "symmetry")


def demo(arguments: argparse.Namespace) -> None:
    """Grow a tree on measured cell nuclei, measure its errors, and draw it."""
    check_output(arguments.out, picture=True)
    print(_STORY, flush=True)
    data: Any = load_breast_cancer(as_frame=True)
    X = data.data[[f"mean {name}" for name in _COLUMNS]].set_axis(_COLUMNS, axis=1)
    X["diagnosis"] = pd.Categorical(data.target_names[data.target].astype(str))
    rows = Rows(X, data.data["worst area"].rename("largest area"))
    model = SecretRegressor(max_leaf_nodes=4, oblique=False)
    found = evaluate(model, rows, test_fraction=0.2, seed=0)
    draw(model, arguments.out)
    print(model.export_text())
    print(score_table(found.scores, f"Errors on {len(found.held_out.y)} held-out rows"))
    print(f"\nNow your own table:  {PROGRAM} fit FILE TARGET")
    print(f"The picture of the tree is in {arguments.out}")
