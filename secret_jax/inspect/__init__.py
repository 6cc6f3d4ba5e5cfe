"""Inspection of fitted trees: text, tables, pictures, programs, explanations.

`mixin` lists all of it as methods. `equations` has splits and models in units of the
data, exact and as printed; `printing` and `words` make words of them. The view (`view`)
says what is in a node, so that text, tables, pictures and pages need not know of the
target. `code/` writes programs of any language from one walk. `text`, `tables`,
`plot_tree`, `plot_partition`, `picture`, `page`, `explain` and `stability` hold what
users call.
"""
