"""Accuracy beside other packages, what each ingredient brings, grids of parameters.

Every fit appends one line to a file of JSON lines, so a stopped run goes on where it
was stopped; the tables are made from that file. `benchmarks/README.md` says more.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.data import GROUPS, default_names
from benchmarks.accuracy.grid import experiments
from benchmarks.accuracy.ours import ABLATIONS, SETTINGS, VARIANTS, grid_candidates
from benchmarks.accuracy.peers import PEER_NAMES
from benchmarks.accuracy.report import Results, report
from benchmarks.shared import (
    InputError,
    code_version,
    told_in_words,
    value_of,
    whole_number,
)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description="Compare this package with others, or the default with less of it.",
    )
    add = parser.add_argument
    models = [*SETTINGS, *PEER_NAMES]
    sets = f"files, folders of CSV files, sets, or groups: {', '.join(GROUPS)}"
    add("--sets", nargs="+", metavar="SET", help=sets)
    add("--data", help="folder of CSV files; else SECRET_JAX_DATA, else OpenML")
    add("--target", help="target column of files; else the last one")
    add("--models", nargs="+", choices=models, metavar="MODEL", help=", ".join(models))
    add("--ablation", action="store_true", help="the default without its ingredients")
    add(
        "--grid",
        nargs="+",
        type=_values,
        action="append",
        metavar="PARAMETER=VALUE,VALUE",
        help="of SecretRegressor, or of estimator=NAME; every combination; may be "
        "given several times",
    )
    add("--seeds", type=whole_number, default=5, help="each with its own random split")
    add("--synthetic-rows", type=whole_number, default=16384, help="in each of 3 parts")
    together = "fits whose trees grow at once; else what pays, and 1 beside others"
    add("--together", type=whole_number, help=together)
    add("--threads", type=whole_number, help="of LightGBM, CatBoost, EBM; else all")
    add("--baseline", metavar="MODEL", help="set beside all others")
    add("--out", type=Path, default=Path("results/accuracy.jsonl"), help="JSON lines")
    add("--summary-only", action="store_true", help="fit nothing, print the tables")
    add("--long", type=Path, metavar="CSV", help="also write a row a fit to this file")
    return parser.parse_args(arguments)


def _values(text: str) -> tuple[str, list[Any]]:
    """A parameter and its values."""
    name, found, values = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no PARAMETER=VALUE,VALUE")
    words, depth = [""], 0
    for letter in values:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    try:
        return name, words if name == "estimator" else list(map(value_of, words))
    except Exception as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def _short_names(grid: Any, models: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Names of a grid's models without what all of them have in common; and that."""
    parts = {
        one.name: [f"{name}={value}" for name, value in one.parameters.items()]
        for one in (grid_candidates(grid) if grid else ())
    }
    common = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    short = {}
    for name, own in parts.items():
        left = [part for part in own if part not in common]
        short[name] = ", ".join(left) or (name if "default" in models else "default")
    return short, sorted(common)


@told_in_words()
def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing runs, then print the tables."""
    options = parse_options(arguments)
    names = options.models
    if names is None:
        every = [] if options.grid else [*VARIANTS, *PEER_NAMES]
        names = ["default", *ABLATIONS] if options.ablation else every
    grid = list(map(dict, options.grid or ()))
    short, common = _short_names(grid, names)
    known = [*names, *short.values()]
    baseline = short.get(options.baseline, options.baseline)
    if baseline is not None and baseline not in known:
        raise InputError(f"No model is {baseline!r}: they are {', '.join(known)}.")
    if options.long:
        options.long.parent.mkdir(parents=True, exist_ok=True)
    found = experiments(
        options.sets or default_names(options.data),
        grid,
        models=names,
        seeds=options.seeds,
        out=options.out,
        target=options.target,
        together=options.together,
        data=options.data,
        synthetic_rows=options.synthetic_rows,
        threads=options.threads,
        summary_only=options.summary_only,
    )
    if options.long:
        found.to_csv(options.long, index=False)
    results = Results(found.assign(model=[short.get(m, m) for m in found["model"]]))
    preferred = (baseline, "lightgbm_refitted", "default", *results.models)
    baseline = next(model for model in preferred if model in results.models)
    print(f"Code {code_version()}. Mean ± standard error over the seeds.")
    print(f"Grid: {', '.join(common)}\n" if common else "")
    print(report(results, baseline))


if __name__ == "__main__":
    main()
