"""The table of the nodes: it says what the tree does."""

import numpy as np
from random_trees import encode, random_rows, random_tree

from secret_jax.inspect.tables import to_dataframe
from secret_jax.inspect.words import model_equation, split_sentence
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import SplitKind, StopReason


def columns_of(tree):
    return to_dataframe(tree).to_dict("list")


def test_following_the_table_is_following_the_tree():
    tree = random_tree(11, 12, kinds=(SplitKind.AXIS, SplitKind.DISCRETE))
    columns = random_rows(5, 200)
    table = columns_of(tree)
    names = list(tree.schema.names)

    def next_node(node, row):
        value = columns[names.index(table["attribute"][node])][row]
        if table["kind"][node] == "axis":
            left = value <= table["threshold"][node]
        else:
            codes = tree.schema.categories[tree.attribute[node]]
            left = tree.goes_left[node, codes.index(value)]
        return table["left" if left else "right"][node]

    reached = []
    for row in range(200):
        node = 0
        while table["kind"][node] != "leaf":
            child = next_node(node, row)
            assert table["parent"][child] == node
            assert table["depth"][child] == table["depth"][node] + 1
            node = child
        reached.append(node)
    np.testing.assert_array_equal(reached, apply(tree, encode(columns)))


def test_words_are_those_of_the_text_and_numbers_are_in_units_of_the_target():
    tree = random_tree(4, 10)
    table = columns_of(tree)
    scale = tree.schema.target_scale
    for node in range(tree.n_nodes):
        assert table["model"][node] == model_equation(tree, node)
        if tree.is_leaf[node]:
            assert table["kind"][node] == "leaf"
            assert table["split"][node] is table["attribute"][node] is None
            assert table["stop_reason"][node] == StopReason.PRUNED.sentence
            assert np.isnan(table["threshold"][node])
        else:
            assert table["split"][node] == split_sentence(tree, node)
            assert table["stop_reason"][node] is None
            no_column = tree.kind[node] == SplitKind.OBLIQUE
            assert (table["attribute"][node] is None) == no_column
    np.testing.assert_allclose(
        np.square(table["error"]), scale**2 * tree.train_error[:, 0], rtol=1e-12
    )
    np.testing.assert_array_equal(table["rows"], tree.weight)
    np.testing.assert_allclose(table["share"], tree.weight / 1000)
    low, high = (side[:, 0] for side in tree.clip_range())
    np.testing.assert_allclose(table["low"], tree.schema.restore_target(low))
    np.testing.assert_allclose(table["high"], tree.schema.restore_target(high))
