"""Inspection of fitted trees: text, tables, pictures, programs, explanations.

`mixin` lists all of it as methods. `equations` has splits and models in units of the
data, `rounding` the numbers that are printed; `printing`, `words` and `notes` make
words of them. The view (`view`) tells what is in a node, so that `text`, `dot`, `plot/`
and `report/` need not know of the target. `frame` makes tables of nodes, `coefficients`
those of their equations, and `stability` one of their splits; `code/` writes programs
of any language from one walk. `explain` and `importances` share out predictions and
what a tree explains, `intervals` says how far numbers may be off.
"""
