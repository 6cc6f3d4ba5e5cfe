"""Inspection of fitted trees: text, tables, pictures, programs, explanations.

`mixin` lists all of it as methods. `equations` has splits and models in units of the
data, `rounding` the numbers that are printed; `printing` and `words` make words
of them. The view (`view`) says what is in a node, so that `text`, `dot`, `plot/`
and `report/` need not know of the target. `tables` makes DataFrames of nodes and
equations, `stability` one of splits; `code/` writes programs of any language from one
walk. `explain` and `importances` share out predictions and what a tree explains.
"""
