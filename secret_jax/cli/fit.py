"""The command that grows a tree on a file.

A command takes the parsed arguments, prints its result to standard output and its
progress to standard error.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import secret_jax
from secret_jax.cli.evaluation import TREE, Evaluation, evaluate, score_table
from secret_jax.cli.messages import PROGRAM, CommandError, check_output, draw, say
from secret_jax.cli.rows import Rows, training_rows
from secret_jax.inspect.printing import counted
from secret_jax.runtime.optional import imported
from secret_jax.runtime.version import VERSION


def fit(arguments: argparse.Namespace) -> None:
    """Grow a tree on a file, measure it, save and report it."""
    check_output(arguments.out)
    if arguments.seed < 0:
        raise CommandError(f"--seed {arguments.seed} is below zero")
    shares = arguments.calibrate, arguments.test_fraction
    if min(shares) < 0 or sum(shares) >= 1:
        raise CommandError(
            f"--calibrate {arguments.calibrate:g} and --test-fraction "
            f"{arguments.test_fraction:g} leave no rows to grow a tree on"
        )
    if arguments.report is not None:
        imported("matplotlib", "Pictures", "plot")
        imported("jinja2", "Pages", "plot")
        os.makedirs(arguments.report, exist_ok=True)
    rows = training_rows(arguments)
    if rows.classes:
        n_classes = counted(rows.y.nunique(), "class", "classes")
        say(f"  {rows.y.name}: {n_classes}, so the tree is a classifier")
    model = _model(arguments, rows)
    loss = model.get_params().get("loss", "squared")
    # Probabilities say how sure they are, and other losses predict no means.
    has_intervals = hasattr(model, "conformalize") and not rows.classes
    has_intervals = has_intervals and loss in ("auto", "squared")
    if arguments.calibrate and not has_intervals:
        raise CommandError(
            "--calibrate needs a target of numbers, one tree, --loss auto or squared"
        )
    n_aside = round(len(rows.y) * arguments.calibrate)
    aside, rows = rows.drawn(n_aside, arguments.seed + 1)
    found = evaluate(model, rows, arguments.test_fraction, arguments.seed)
    if arguments.refit_all and found.scores:
        say(f"growing the tree again on all {len(rows.y):,} rows")
        before = f"{model._method} of {found.n_training:,} rows"
        scores = {before: found.scores.pop(model._method)} | found.scores
        found = found._replace(scores=scores)
        rows.fit(model)
    elif not len(aside.y):
        aside = found.held_out
    model.set_params(verbose=0)
    if len(aside.y) and has_intervals:
        model.conformalize(aside.X, aside.y, aside.beside.get("weight"))
        say(f"intervals are calibrated on {len(aside.y):,} rows")
    model.reading_ = rows.reading.to_json() | {"target": arguments.target}
    if arguments.out is not None:
        model.save(arguments.out)  # files first: a closed pipe may end the printing
    if arguments.report is not None:
        _write_report(Path(arguments.report), arguments, found)
    print(_text_of(model).rstrip("\n"))
    if found.scores:
        heading = f"Errors on {len(found.held_out.y):,} held-out rows"
        print(f"\n{score_table(found.scores, heading)}", flush=True)
    if arguments.report is not None:
        say(f"wrote {', '.join(sorted(os.listdir(arguments.report)))}")
    if path := arguments.out:
        say(f"wrote {path}; use it: {PROGRAM} predict {path} FILE")
    elif arguments.report is None:
        say("nothing was saved; --out MODEL keeps the tree, --report DIR a picture too")


def _model(arguments: argparse.Namespace, rows: Rows) -> Any:
    """Build the estimator that the options ask for, or change a preset of it."""
    kind = "Boosting" * (arguments.model == "booster")
    kind = f"Secret{kind}{'Classifier' if rows.classes else 'Regressor'}"
    estimator, preset = getattr(secret_jax, kind), arguments.preset
    trees: Any = (secret_jax.SecretRegressor, secret_jax.SecretClassifier)
    every = {name for one in trees for name in one().get_params(deep=False)}
    given = {name: value for name, value in vars(arguments).items() if name in every}
    if preset in getattr(estimator, "_literature", ()):
        model = estimator.literature(preset)
    elif preset in ("accurate", "paper") and hasattr(estimator, preset):
        model = getattr(estimator, preset)()
    elif preset:
        raise CommandError(f"--preset {preset} does not go with a {kind}")
    else:
        model = estimator()
    for name in given.keys() - model.get_params():
        flag = name.replace("_", "-")
        raise CommandError(f"--{flag} does not go with a {kind}")
    given |= {"random_state": arguments.seed, "verbose": not arguments.quiet}
    roles = {"categorical_features": arguments.categorical}
    roles |= {"split_features": arguments.split_only}
    roles |= {"monotonic_cst": arguments.monotone}
    return model.set_params(
        **given, **{n: names for n, names in roles.items() if names}
    )


def _text_of(model: Any) -> str:
    """Write a tree as text; a booster is too large."""
    if hasattr(model, "export_text"):
        return model.export_text()
    return f"a booster of {model.n_trees_:,} trees"


def _write_report(
    folder: Path, arguments: argparse.Namespace, found: Evaluation
) -> None:
    """Write the errors, a picture and a page to a folder."""
    model = found.model
    content = {
        "version": VERSION,
        "file": arguments.file,
        "target": arguments.target,
        "n_training": found.n_training,
        "n_test": len(found.held_out.y),
        "refitted_on_all_rows": arguments.refit_all,
        "errors": found.scores,
        "parameters": model.get_params(),
    }
    errors = json.dumps(content, indent=2, default=repr)
    (folder / "errors.json").write_text(errors + "\n", encoding="utf-8")
    if not hasattr(model, "to_html"):  # a booster
        return
    seen = len(found.held_out.y) > 0 and not arguments.refit_all
    rows = (found.held_out.X, found.held_out.y) if seen else ()
    others = {name: score for name, score in found.scores.items() if name != TREE}
    title = f"{arguments.target} from {Path(arguments.file).name}"
    page = model.to_html(*rows, comparison=others, title=title)
    (folder / "report.html").write_text(page, encoding="utf-8")
    draw(model, folder / "tree.png")
