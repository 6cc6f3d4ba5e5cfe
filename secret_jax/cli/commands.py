"""The command that grows a tree on a file.

A command takes the parsed arguments of `secret_jax.cli.main`, prints its result to
standard output and its progress to standard error, and imports what is slow only when
it runs. `secret_jax.cli.saved` has the commands for models that were saved.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secret_jax.cli.messages import (
    PROGRAM,
    CommandError,
    check_output,
    flags_for_parameters,
    require,
    say,
)
from secret_jax.cli.pictures import draw

if TYPE_CHECKING:
    import pandas as pd

    from secret_jax.cli.evaluation import Evaluation
    from secret_jax.estimators.classifier import SecretClassifier
    from secret_jax.estimators.regressor import SecretRegressor

# Options of fit that go to the estimator under the same name, unless left out.
_SAME_NAME = (
    "oblique",
    "leaf",
    "splits",
    "prune",
    "refine",
    "equation_tolerance",
    "pruning_tolerance",
    "min_samples_split",
    "min_samples_leaf",
    "min_gain",
    "max_leaf_nodes",
    "max_depth",
    "max_split_samples",
    "missing_values",
    "device",
    "max_memory",
)
# Of those, and of two more, what is yes, no and none to a person.
_ANSWERS = {"yes": True, "no": False, "none": None, "all": None}


def fit(arguments: argparse.Namespace) -> None:
    """Grow a tree on a file, measure it beside the baselines, save and report it."""
    from secret_jax.cli.training_table import training_table

    arguments.target = _target(arguments)
    if arguments.stream:
        from secret_jax.cli.streaming import fit_streamed

        fit_streamed(arguments, chosen_model(arguments))
        return
    if arguments.calibrate + arguments.test_fraction >= 1:
        raise CommandError(
            f"--calibrate {arguments.calibrate:g} and --test-fraction "
            f"{arguments.test_fraction:g} leave no rows to grow a tree on"
        )
    if arguments.report is not None:
        require("matplotlib", "plot", "draw a picture")
        require("jinja2", "plot", "write a page")
        os.makedirs(arguments.report, exist_ok=True)
    if arguments.out is not None:
        check_output(arguments.out)
    model: Any = chosen_model(arguments)
    X, y, reading, classes = training_table(arguments)
    if classes:
        model = chosen_classifier(arguments)
        found = len(set(y))
        say(f"  {y.name}: {found} classes, so the tree is a classifier")
    for parameter, names in (
        ("categorical_features", arguments.discrete),
        ("split_features", arguments.split_only),
    ):
        model.set_params(**{parameter: [reading.label(n) for n in names] or None})
    aside, X, y = _set_aside(X, y, arguments)

    from secret_jax.cli.evaluation import evaluate
    from secret_jax.inspect.words import cuts_a_list

    with flags_for_parameters():
        evaluation = evaluate(
            model,
            X,
            y,
            test_fraction=arguments.test_fraction,
            seed=arguments.seed,
            progress=say,
        )
    if arguments.refit_all and evaluation.n_test:
        say(f"growing the tree again on all {len(X)} rows")
        evaluation.model.fit(X, y)
    evaluation.model.set_params(verbose=0)
    _calibrate(evaluation, aside, arguments)
    evaluation.model.reading_ = reading.to_json()
    result = _result_text(evaluation, arguments.refit_all)
    print(result)
    if arguments.report is not None:
        _write_report(Path(arguments.report), arguments, evaluation, result)
        say(
            f"wrote {', '.join(sorted(os.listdir(arguments.report)))} to "
            f"{arguments.report}"
        )
    if arguments.out is not None:
        from secret_jax.tree.file import save_model

        save_model(evaluation.model, arguments.out)
        say(f"wrote {arguments.out}; use it: {PROGRAM} predict {arguments.out} FILE")
    if cuts_a_list(result):
        path = arguments.out or "MODEL"
        say(f"lists of categories are cut short; {PROGRAM} show {path} --categories")
    if arguments.out is None and arguments.report is None:
        say("nothing was saved; --out MODEL keeps the tree, --report DIR a picture too")


def _target(arguments: argparse.Namespace) -> str:
    """The column to predict, which may be named in two places."""
    given = {arguments.target, arguments.positional_target} - {None}
    if len(given) == 1:
        return given.pop()
    raise CommandError(
        f"two columns to predict were named, {arguments.positional_target!r} and "
        f"{arguments.target!r}; name one"
        if given
        else f"name the column to predict: {PROGRAM} fit FILE TARGET, or --target "
        f"COLUMN; see {PROGRAM} fit --help"
    )


def _set_aside(
    X: pd.DataFrame, y: pd.Series, arguments: argparse.Namespace
) -> tuple[tuple[pd.DataFrame, pd.Series] | None, pd.DataFrame, pd.Series]:
    """Rows for the widths of intervals alone, and the others."""
    import numpy as np

    n_aside = round(len(X) * arguments.calibrate)
    if n_aside == 0:
        return None, X, y
    order = np.random.default_rng([arguments.seed, 1]).permutation(len(X))
    aside, kept = np.sort(order[:n_aside]), np.sort(order[n_aside:])
    return (X.iloc[aside], y.iloc[aside]), X.iloc[kept], y.iloc[kept]


def _calibrate(
    evaluation: Evaluation,
    aside: tuple[pd.DataFrame, pd.Series] | None,
    arguments: argparse.Namespace,
) -> None:
    """Calibrate intervals on rows set aside, or on held-out rows that stayed so."""
    if not hasattr(evaluation.model, "predict_interval"):
        return  # of classes probabilities say how sure they are
    if aside is None and not arguments.refit_all:
        aside = evaluation.held_out
    if aside is not None:
        evaluation.model.conformalize(*aside)
        say(f"intervals are calibrated on {len(aside[1])} rows")


def chosen_model(arguments: argparse.Namespace) -> SecretRegressor:
    """The regressor that the options ask for."""
    from secret_jax.estimators.regressor import SecretRegressor

    start = SecretRegressor.paper() if arguments.paper else SecretRegressor()
    start.set_params(**_chosen(arguments))
    if arguments.clip_margin is not None:
        margin = _ANSWERS.get(arguments.clip_margin, arguments.clip_margin)
        start.set_params(leaf__clip_margin=margin)
    return _completed(start, arguments)


def chosen_classifier(arguments: argparse.Namespace) -> SecretClassifier:
    """The classifier that the options ask for."""
    from secret_jax.estimators.classifier import SecretClassifier

    start = SecretClassifier().set_params(**_chosen(arguments))
    return _completed(start, arguments)


def _chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """Parameters that were given on the command line."""
    given = {name: getattr(arguments, name) for name in _SAME_NAME}
    for name in ("indicators", "distill"):
        given[name] = getattr(arguments, name)
    return {
        name: _ANSWERS.get(value, value) if isinstance(value, str) else value
        for name, value in given.items()
        if value is not None
    }


def _completed(start: Any, arguments: argparse.Namespace) -> Any:
    """An estimator with what an option says of its parts, its columns and the run."""
    if arguments.leaf_penalty is not None:
        from secret_jax.prune.cost_complexity import CostComplexity

        start.set_params(prune=CostComplexity(alpha=arguments.leaf_penalty))
    if arguments.max_split_features is not None:
        if "splits__max_split_features" not in start.get_params():
            raise CommandError("--max-split-features goes with --splits rss only")
        start.set_params(splits__max_split_features=arguments.max_split_features)
    return start.set_params(
        categorical_features=arguments.discrete or None,
        split_features=arguments.split_only or None,
        random_state=arguments.seed,
        verbose=not arguments.quiet,
    )


def _result_text(evaluation: Evaluation, refitted: bool) -> str:
    from secret_jax.cli.evaluation import score_table

    parts = [evaluation.model.export_text().rstrip("\n")]
    if evaluation.scores:
        parts.append(score_table(evaluation))
        if refitted:
            parts.append(
                "The tree above was grown again on all rows. The errors are those of\n"
                f"the tree grown before on the {evaluation.n_training:,} training rows."
            )
    return "\n\n".join(parts)


def _write_report(
    folder: Path, arguments: argparse.Namespace, evaluation: Evaluation, result: str
) -> None:
    from secret_jax import __version__
    from secret_jax.cli.evaluation import TREE

    parameters = evaluation.model.get_params()
    options = {
        name: value
        for name, value in vars(arguments).items()
        if name not in ("run", "command") and value not in (None, [], False)
    }
    lines = [
        f"{PROGRAM} {__version__}: {arguments.target} from {arguments.file}",
        f"{evaluation.n_training} training rows, {evaluation.n_test} held-out rows, "
        f"{evaluation.seconds:.1f} s",
        "",
        result,
        "",
        "Options of the command",
        *(f"  {name} = {value!r}" for name, value in options.items()),
        "",
        "Parameters of the estimator",
        *(f"  {name} = {value!r}" for name, value in parameters.items()),
        "",
    ]
    content = {
        "version": __version__,
        "file": arguments.file,
        "target": arguments.target,
        "n_training": evaluation.n_training,
        "n_test": evaluation.n_test,
        "refitted_on_all_rows": arguments.refit_all,
        "errors": evaluation.scores,
        "seconds": evaluation.seconds,
        "parameters": parameters,
    }
    (folder / "report.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "errors.json").write_text(
        json.dumps(content, indent=2) + "\n", encoding="utf-8"
    )
    draw(evaluation.model, folder / "tree.png")
    # After growing again, the held-out rows are no longer held out.
    known = None if arguments.refit_all else evaluation.held_out
    before = f"the tree of the {evaluation.n_training:,} training rows"
    page = evaluation.model.to_html(
        *(known or (None, None)),
        comparison={
            before if name == TREE else name: score
            for name, score in evaluation.scores.items()
            if name != TREE or arguments.refit_all
        },
        title=f"{arguments.target} from {Path(arguments.file).name}",
    )
    (folder / "report.html").write_text(page, encoding="utf-8")
