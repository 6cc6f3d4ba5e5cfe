"""The command that grows a tree on a file.

A command takes the parsed arguments, prints its result to standard output and its
progress to standard error.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import secret_jax
from secret_jax.cli.evaluation import TREE, Evaluation, evaluate, score_table
from secret_jax.cli.messages import PROGRAM, CommandError, check_output, draw, say
from secret_jax.cli.parameters import built
from secret_jax.cli.rows import Rows, training_rows
from secret_jax.inspect.printing import counted
from secret_jax.inspect.words import cuts_a_list
from secret_jax.runtime.optional import imported
from secret_jax.runtime.version import VERSION

_MOST_COLUMNS = 8  # of a booster, by importance


def fit(arguments: argparse.Namespace) -> None:
    """Grow a tree on a file, measure it, save and report it."""
    check_output(arguments.out)
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
    aside, rows = rows.drawn(n_aside, [arguments.seed, 1])
    found = evaluate(model, rows, arguments.test_fraction, arguments.seed)
    if arguments.refit_all and found.scores:
        say(f"growing the tree again on all {len(rows.y):,} rows")
        rows.fit(model)
    model.set_params(verbose=0)
    if not len(aside.y) and not arguments.refit_all:
        aside = found.held_out
    if len(aside.y) and has_intervals:
        model.conformalize(aside.X, aside.y, aside.beside.get("weight"))
        say(f"intervals are calibrated on {len(aside.y):,} rows")
    model.reading_ = rows.reading.to_json() | {"target": arguments.target}
    if arguments.out is not None:
        model.save(arguments.out)  # files first: a closed pipe may end the printing
    if arguments.report is not None:
        _write_report(Path(arguments.report), arguments, found)
    result = _result(found, arguments.refit_all)
    print(result, flush=True)
    path = arguments.out or "MODEL"
    if cuts_a_list(result):
        say(f"lists of categories are cut short; {PROGRAM} show {path} --categories")
    if arguments.report is not None:
        written = ", ".join(sorted(os.listdir(arguments.report)))
        say(f"wrote {written} to {arguments.report}")
    if arguments.out is not None:
        say(f"wrote {path}; use it: {PROGRAM} predict {path} FILE")
    elif arguments.report is None:
        say("nothing was saved; --out MODEL keeps the tree, --report DIR a picture too")


def _model(arguments: argparse.Namespace, rows: Rows) -> Any:
    """Build the estimator that the options ask for."""
    kind = "Boosting" * (arguments.model == "booster")
    kind = f"Secret{kind}{'Classifier' if rows.classes else 'Regressor'}"
    roles = {"categorical_features": arguments.categorical}
    roles |= {"split_features": arguments.split_only}
    roles |= {"monotonic_cst": arguments.monotone}
    return built(
        arguments,
        getattr(secret_jax, kind),
        random_state=arguments.seed,
        verbose=not arguments.quiet,
        **{name: columns for name, columns in roles.items() if columns},
    )


def _result(found: Evaluation, refitted: bool) -> str:
    parts = [_text_of(found.model).rstrip("\n")]
    if found.scores:
        heading = f"Errors on {len(found.held_out.y):,} held-out rows"
        parts.append(score_table(found.scores, heading))
    if found.scores and refitted:
        parts.append(
            "The tree above was grown again on all rows. The errors are those of\n"
            f"the tree grown before on the {found.n_training:,} training rows."
        )
    return "\n\n".join(parts)


def _text_of(model: Any) -> str:
    """Write a tree as text; of a booster, how much each column explains."""
    if hasattr(model, "export_text"):
        return model.export_text()
    share, names = model.feature_importances_, model._schema.input_names
    order = np.argsort(-share, kind="stable")[:_MOST_COLUMNS]
    lines = [f"  {names[i]}: {100 * share[i]:.1f} %" for i in order]
    return "\n".join(
        [f"a booster of {model.n_trees_:,} trees; columns by importance:", *lines]
    )


def _write_report(
    folder: Path, arguments: argparse.Namespace, found: Evaluation
) -> None:
    """Write the errors, a picture and a page to a folder."""
    model, scores = found.model, found.scores
    content = {
        "version": VERSION,
        "file": arguments.file,
        "target": arguments.target,
        "n_training": found.n_training,
        "n_test": len(found.held_out.y),
        "refitted_on_all_rows": arguments.refit_all,
        "errors": scores,
        "seconds": found.seconds,
        "parameters": model.get_params(),
    }
    errors = json.dumps(content, indent=2, default=repr)
    (folder / "errors.json").write_text(errors + "\n", encoding="utf-8")
    if not hasattr(model, "to_html"):  # a booster
        return
    # After growing again, the held-out rows are no longer held out.
    seen = len(found.held_out.y) > 0 and not arguments.refit_all
    rows = (found.held_out.X, found.held_out.y) if seen else (None, None)
    others = {name: score for name, score in scores.items() if name != TREE}
    if not seen and TREE in scores:
        others |= {f"the tree of the {found.n_training:,} training rows": scores[TREE]}
    title = f"{arguments.target} from {Path(arguments.file).name}"
    page = model.to_html(*rows, comparison=others, title=title)
    (folder / "report.html").write_text(page, encoding="utf-8")
    draw(model, folder / "tree.png")
