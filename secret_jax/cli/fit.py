"""The command that grows a tree on a file.

A command takes the parsed arguments, prints its result to standard output and its
progress to standard error.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from secret_jax.cli.evaluation import TREE, Evaluation, drawn, evaluate, score_table
from secret_jax.cli.kinds import estimator_of, text_of
from secret_jax.cli.messages import (
    PROGRAM,
    CommandError,
    check_output,
    draw,
    flags_for_parameters,
    say,
)
from secret_jax.cli.parameters import given_parameters
from secret_jax.cli.streaming import fit_streamed
from secret_jax.cli.training_table import training_table
from secret_jax.inspect.printing import counted
from secret_jax.inspect.words import cuts_a_list
from secret_jax.runtime.optional import imported
from secret_jax.runtime.version import VERSION


def fit(arguments: argparse.Namespace) -> None:
    """Grow a tree on a file, measure it beside the baselines, save and report it."""
    check_output(arguments.out)
    if arguments.stream and arguments.model != "tree":
        raise CommandError(
            f"--stream goes with one tree, not --model {arguments.model}"
        )
    if arguments.stream:
        fit_streamed(arguments, chosen_model(arguments, False, {}))
        return
    if arguments.calibrate + arguments.test_fraction >= 1:
        raise CommandError(
            f"--calibrate {arguments.calibrate:g} and --test-fraction "
            f"{arguments.test_fraction:g} leave no rows to grow a tree on"
        )
    if arguments.report is not None:
        imported("matplotlib", "Pictures", "plot")
        imported("jinja2", "Pages", "plot")
        os.makedirs(arguments.report, exist_ok=True)

    table = training_table(arguments)
    classes = table.classes
    if classes:
        n_classes = counted(len(set(table.y)), "class", "classes")
        say(f"  {table.y.name}: {n_classes}, so the tree is a classifier")
    model = chosen_model(arguments, classes, table.reading.labels)
    # Probabilities say how sure they are, and other losses predict no means.
    loss = model.get_params().get("loss", model.get_params().get("tree__loss"))
    has_intervals = hasattr(model, "conformalize") and not classes
    has_intervals = has_intervals and loss in ("auto", "squared", None)
    if arguments.calibrate and not has_intervals:
        raise CommandError(
            "--calibrate needs --loss auto or squared and one tree, and the loss is "
            f"{loss!r}"
        )
    aside = None
    if n_aside := round(len(table.X) * arguments.calibrate):  # for intervals alone
        these, others = drawn(table, n_aside, [arguments.seed, 1])
        aside, table = table.take(these), table.take(others)
    with flags_for_parameters():
        evaluation = evaluate(model, table, arguments.test_fraction, arguments.seed)
    fitted = evaluation.model
    if arguments.refit_all and evaluation.n_test:
        say(f"growing the tree again on all {len(table.X)} rows")
        table.fit(fitted)
    told = [name for name in fitted.get_params() if name.endswith("verbose")]
    fitted.set_params(**dict.fromkeys(told, 0))
    if aside is None and not arguments.refit_all:
        aside = evaluation.held_out
    if aside is not None and has_intervals:
        fitted.conformalize(aside.X, aside.y, aside.weight)
        say(f"intervals are calibrated on {len(aside.y)} rows")
    fitted.reading_ = table.reading.to_json()
    if arguments.out is not None:
        fitted.save(arguments.out)  # files first: a closed pipe may end the printing
    if arguments.report is not None:
        _write_report(Path(arguments.report), arguments, evaluation)
    result = _result_text(evaluation, arguments.refit_all)
    print(result, flush=True)
    if arguments.report is not None:
        written = ", ".join(sorted(os.listdir(arguments.report)))
        say(f"wrote {written} to {arguments.report}")
    if arguments.out is not None:
        say(f"wrote {arguments.out}; use it: {PROGRAM} predict {arguments.out} FILE")
    if cuts_a_list(result):
        path = arguments.out or "MODEL"
        say(f"lists of categories are cut short; {PROGRAM} show {path} --categories")
    if arguments.out is None and arguments.report is None:
        say("nothing was saved; --out MODEL keeps the tree, --report DIR a picture too")


def chosen_model(
    arguments: argparse.Namespace, classes: bool, labels: dict[str, str]
) -> Any:
    """Build the estimator that the options ask for, with the model's column names."""
    kind = estimator = estimator_of(arguments.model, classes)
    if "tree" in kind().get_params(deep=False):  # which has all other parameters
        estimator = estimator_of("tree", classes)
    given = given_parameters(arguments, estimator)
    build = getattr(estimator, arguments.preset) if arguments.preset else estimator
    label = labels.get
    # What the owner calls text is meant to be categories, whatever it looks like.
    others = {arguments.target, arguments.group, arguments.weight}
    texts = [name for name in arguments.text if name in labels.keys() - others]
    categories = dict.fromkeys([*arguments.categorical, *texts])
    model = build().set_params(
        **given,
        categorical_features=[label(name, name) for name in categories] or None,
        split_features=[label(name, name) for name in arguments.split_only] or None,
        monotonic_cst={label(name, name): d for name, d in arguments.monotone.items()}
        if arguments.monotone
        else None,
        random_state=arguments.seed,
        verbose=not arguments.quiet,
    )
    return model if kind is estimator else kind(model)


def _result_text(evaluation: Evaluation, refitted: bool) -> str:
    parts = [text_of(evaluation.model).rstrip("\n")]
    if evaluation.scores:
        heading = f"Errors on {evaluation.n_test:,} held-out rows"
        parts.append(score_table(evaluation.scores, heading))
        if refitted:
            parts.append(
                "The tree above was grown again on all rows. The errors are those of\n"
                f"the tree grown before on the {evaluation.n_training:,} training rows."
            )
    return "\n\n".join(parts)


def _write_report(
    folder: Path, arguments: argparse.Namespace, evaluation: Evaluation
) -> None:
    """Write the errors, a picture and a page to a folder."""
    model, scores = evaluation.model, evaluation.scores
    content = {
        "version": VERSION,
        "file": arguments.file,
        "target": arguments.target,
        "n_training": evaluation.n_training,
        "n_test": evaluation.n_test,
        "refitted_on_all_rows": arguments.refit_all,
        "errors": scores,
        "seconds": evaluation.seconds,
        "parameters": model.get_params(),
    }
    # After growing again, the held-out rows are no longer held out.
    seen = None if arguments.refit_all else evaluation.held_out
    held_out = (None, None) if seen is None else (seen.X, seen.y)
    errors = json.dumps(content, indent=2, default=repr)
    (folder / "errors.json").write_text(errors + "\n", encoding="utf-8")
    if hasattr(model, "plot_effects"):  # of a booster, which is no single tree
        model.plot_effects().savefig(folder / "effects.png")
        return
    before = f"the tree of the {evaluation.n_training:,} training rows"
    comparison = {
        before if name == TREE else name: score
        for name, score in scores.items()
        if name != TREE or arguments.refit_all
    }
    title = f"{arguments.target} from {Path(arguments.file).name}"
    page = model.to_html(*held_out, comparison=comparison, title=title)
    (folder / "report.html").write_text(page, encoding="utf-8")
    draw(model, folder / "tree.png")
