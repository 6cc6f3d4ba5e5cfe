"""Model files: exact, one step, a reason for every refusal, and read ever after."""

from __future__ import annotations

import dataclasses
import json
import re
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from golden_files import GOLDEN
from handmade import SHAPES, build_tree, load_tree, save_tree
from random_trees import TOWNS, random_tree, with_gates
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from secret_jax import (
    HoldOut,
    Ridge,
    RssSplits,
    SecretClassifier,
    SecretRegressor,
    SecretSplits,
)
from secret_jax.models.interface import LeafModel
from secret_jax.tree.file import (
    FORMAT_VERSION,
    ModelFileError,
    load_model,
    save_model,
    to_json,
    write,
)
from secret_jax.tree.structure import ARRAY_FIELDS, SplitKind, Tree, flaw_of


def example_tree(
    categories: tuple = ("F", "I", "M"), clip_margin=0.1, n_outputs: int = 1
) -> Tree:
    """Three leaves with awkward numbers, names and columns."""
    tree = random_tree(0, 3, clip_margin=clip_margin, n_outputs=n_outputs)
    schema = dataclasses.replace(
        tree.schema,
        names=("länge", "sex", "x y", *tree.schema.names[3:]),
        center=np.array([1 / 3, -1e300, 0.1 + 0.2, 0.0, 7.0]),
        scale=np.array([np.nextafter(1.0, 2.0), 5e-324, 1.0, 1e-7, 1e300]),
        categories=(categories, TOWNS),
        target_names=("rings", "größe")[:n_outputs],
        target_centers=(0.1 + 0.2, -1e300)[:n_outputs],
        target_scales=(1e-7 / 3, 5e-324)[:n_outputs],
        missing_shares=((0, 1 / 3),),
        whole=(2,),
        tails=((0, -1 / 3, 1e300),),
        monotonic=((0, 1), (2, -1)),
    )
    model = tree.coefficient
    return dataclasses.replace(
        tree,
        schema=schema,
        standard_error=np.where(model > 0, np.nan, -model),
        gate_width=np.array([0.25, 0.0, 0.0, 0.0, 0.0], np.float32),
        spread=np.abs(model[:, 0, 1:]) * [1 / 3, 0.0, 5e-324, 1e300],
    )


def assert_same_tree(found: Tree, expected: Tree) -> None:
    """All is equal to the last bit, and of the same type."""
    for one, other in ((found, expected), (found.schema, expected.schema)):
        for name in type(one).__dataclass_fields__:
            value, wanted = getattr(one, name), getattr(other, name)
            assert type(value) is type(wanted), name
            if isinstance(value, np.ndarray):
                assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
                assert value.tobytes() == wanted.tobytes(), name
            elif name != "schema":  # 1 is no 1.0, and no True
                assert repr(value) == repr(wanted), name


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "tree.model"
    save_tree(example_tree(), path)
    return path


def rewrite(path: Path, **changes) -> None:
    """Store the archive anew with some members changed, as an editor would."""
    with np.load(path) as archive:
        members = dict(archive)
    with open(path, "wb") as file:
        np.savez_compressed(file, **(members | changes))


def rewrite_header(path: Path, **changes) -> None:
    header = json.loads(np.load(path)["header"].item())
    rewrite(path, header=np.array(json.dumps(header | changes)))


def crafted(
    path: Path, kind: type = SecretRegressor, /, parameters=(), **fitted
) -> None:
    """A file with a checksum of its own and fitted attributes that nobody fitted."""
    arrays: dict = {}
    content = {
        "estimator": kind.__name__,
        "parameters": dict(parameters),
        "fitted": {"tree_": example_tree()} | fitted,
    }
    write(to_json(content, arrays, "crafted"), arrays, path)


@pytest.mark.parametrize(
    "categories",
    [
        ("", "1", "M", "a,b", "ü\ud800"),
        (-1, 0, 2**70),
        (False, True),
        (-np.inf, -0.1, 1.0, 1e300),
        (1, 2.5, "2.5", "x"),
    ],
)
@pytest.mark.parametrize(("clip_margin", "n_outputs"), [(None, 1), (0.1, 2)])
def test_a_tree_comes_back_bit_for_bit(tmp_path, categories, clip_margin, n_outputs):
    tree = example_tree(categories, clip_margin, n_outputs)
    save_tree(tree, tmp_path / "tree.model")
    assert_same_tree(load_tree(tmp_path / "tree.model"), tree)


def test_other_categories_are_refused(tmp_path):
    path = tmp_path / "tree.model"
    with pytest.raises(
        ModelFileError, match="column 'sex' has the category 1j, which is not text"
    ):
        save_tree(example_tree((1j,)), path)
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_replaced_in_one_step(saved, monkeypatch):
    before = saved.read_bytes()

    def full_disk(file, **arrays):
        file.write(b"PK\x03\x04 and then the disk was full")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", full_disk)
        with pytest.raises(OSError, match="No space left"):
            save_tree(example_tree(clip_margin=None), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
    save_tree(example_tree(clip_margin=None), saved)
    assert load_tree(saved).clip_margin is None


def test_what_is_no_file_is_not_replaced(tmp_path):
    with pytest.raises(OSError, match="not a regular file"):
        save_tree(example_tree(), tmp_path)
    with pytest.raises(FileNotFoundError):
        save_tree(example_tree(), tmp_path / "missing" / "tree.model")
    with pytest.raises(FileNotFoundError):
        load_tree(tmp_path / "nothing")


def zeros(n_bytes: int) -> np.ndarray:
    return np.zeros(n_bytes // 8)


def unfaithful(path: Path) -> None:
    """A member that is longer than the archive says."""
    rewrite(path, **{"fitted.tree_.coefficient": zeros(50_000_000)})
    size, smaller = ((n).to_bytes(4, "little") for n in (50_000_128, 328))
    path.write_bytes(path.read_bytes().replace(size, smaller))


def other_archive(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, x=zeros(8))


def members(**changes):
    return lambda path: rewrite(path, **changes)


def header(**changes):
    return lambda path: rewrite_header(path, **changes)


def cut(length: int):
    return lambda path: path.write_bytes(path.read_bytes()[:length])


NEXT, COEFFICIENT = FORMAT_VERSION + 1, "fitted.tree_.coefficient"
ALTERED = "was truncated, altered or damaged"
DAMAGE = {
    "empty": (cut(0), "'tree.model' is not a .* is empty"),
    "text": (lambda p: p.write_bytes(b"length,width\n1,2\n"), "not begin like one"),
    "pickle": (lambda p: p.write_bytes(b"\x80\x04\x95pickle"), "not begin like one"),
    "cut 4": (cut(4), ALTERED),
    "cut 100": (cut(100), ALTERED),
    "cut 1000": (cut(1000), ALTERED),
    "cut end": (cut(-1), ALTERED),
    "archive": (other_archive, "not a .* without the member header"),
    "program": (header(format="another's"), r"not a .* format is \"another"),
    "version": (
        header(format_version=NEXT, package_version="9.1"),
        rf"format version {NEXT}, and .*: 9\.1\.",
    ),
    "shape": (members(**{COEFFICIENT: zeros(200)}), ALTERED),
    "numbers": (members(**{"fitted.tree_.threshold": zeros(40)}), ALTERED),
    "nested": (members(**{"fitted.tree_.schema.center": zeros(40)}), ALTERED),
    "objects": (
        members(**{"fitted.tree_.left": np.array([{}] * 5, object)}),
        ALTERED,
    ),
    "more": (members(another=zeros(8)), ALTERED),
    "content": (header(content={}), ALTERED),
    "checksum": (header(checksum="0" * 64), ALTERED),
    "package": (header(package_version=1), ALTERED),
    "bomb": (members(**{COEFFICIENT: zeros(10**8)}), "in memory"),
    "other bomb": (members(another=zeros(10**8)), "in memory"),
    "header bomb": (members(header=np.array("[" * 6_000_000)), ALTERED),
    "unfaithful": (unfaithful, ALTERED),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_told_before_it_takes_memory(saved, damage, monkeypatch):
    change, message = DAMAGE[damage]
    change(saved)
    monkeypatch.chdir(saved.parent)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=message):
            load_tree(Path(saved.name))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5_000_000


def test_an_array_of_the_header_takes_no_memory_by_its_type(tmp_path):
    odd = {"dtype": "<U100000000", "items": ["a"]}
    crafted(tmp_path / "model", Model, names_=odd)
    assert load_model(tmp_path / "model", Model).names_.dtype == object


class Model(BaseEstimator):
    """An estimator as far as a model file knows one."""

    def __init__(self, leaf="linear", categorical_features=None, random_state=None):
        self.leaf = leaf
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(self, X, y):
        raise NotImplementedError


def fitted_model(**parameters) -> Model:
    model = Model(**parameters)
    model.tree_ = example_tree()
    model.feature_names_in_ = np.array(model.tree_.schema.names, object)
    model.n_features_in_ = np.int64(7)
    model.path_ = np.array([0.1, np.inf], np.float32)
    return model


@pytest.mark.parametrize(
    "parameters",
    [
        {"leaf": "constant", "categorical_features": ["sex"], "random_state": 7},
        {
            "leaf": Ridge(gcv_factor=1.0, clip_margin=None, clip_min_samples=7),
            "categorical_features": SecretSplits(n_starts=4, gain="counted", tol=1e-3),
            "random_state": HoldOut(fraction=1 / 3, refit=False),
        },
    ],
    ids=["plain", "values"],
)
def test_an_estimator_comes_back(tmp_path, parameters):
    model = fitted_model(**parameters)
    save_model(model, tmp_path / "model")
    found = load_model(tmp_path / "model", Model)
    assert found.get_params(deep=False) == parameters
    assert type(found.leaf) is type(parameters["leaf"])
    assert_same_tree(found.tree_, model.tree_)
    assert found.feature_names_in_.dtype == object
    assert found.feature_names_in_.tolist()[:3] == ["länge", "sex", "x y"]
    assert found.n_features_in_ == 7
    assert found.path_.dtype == np.float32
    assert np.array_equal(found.path_, model.path_)


@dataclass(frozen=True, kw_only=True)
class OwnLeaf(LeafModel):
    """A leaf model that no other program can find."""

    def fit(self, statistics, parent):
        raise NotImplementedError


@pytest.mark.parametrize(
    "value", [OwnLeaf(), RssSplits(proposals=(len,)), np.random.RandomState(0)]
)
def test_a_parameter_that_cannot_be_kept_is_announced(tmp_path, value):
    with pytest.warns(UserWarning, match=r"leaf=.* have the default"):
        save_model(fitted_model(leaf=value, random_state=7), tmp_path / "model")
    found = load_model(tmp_path / "model", Model)
    assert (found.leaf, found.random_state) == ("linear", 7)


def test_a_fitted_attribute_that_cannot_be_kept_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(Model(), tmp_path / "model")
    model = fitted_model()
    model.other_ = object()
    with pytest.raises(ModelFileError, match=r"attribute other_ .* is a object, not"):
        save_model(model, tmp_path / "model")


def test_numbers_are_not_read_as_classes_nor_classes_as_numbers(tmp_path):
    X = np.arange(40.0)[:, None]
    SecretRegressor(max_depth=0).fit(X, np.sqrt(X[:, 0])).save(tmp_path / "numbers")
    SecretClassifier(max_depth=0).fit(X, X[:, 0] > 9).save(tmp_path / "classes")
    with pytest.raises(ModelFileError, match="SecretRegressor, no SecretClassifier"):
        SecretClassifier.load(tmp_path / "numbers")
    with pytest.raises(ModelFileError, match="SecretClassifier, no SecretRegressor"):
        SecretRegressor.load(tmp_path / "classes")


@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        (
            {"value": "SecretClassifier", "fields": {}},
            "(SecretClassifier is no value|'parameters')",  # where it may be a part
        ),
        ({"value": "NoSuchThing", "fields": {}}, "NoSuchThing is no value"),
        ({"value": "LeafModel", "fields": {}}, "LeafModel"),
        ({"value": "Ridge", "fields": {"lambda": 1.0}}, "lambda"),
        ({"value": 7, "fields": {}}, "7 is no value"),
        ({"value": "Ridge", "fields": None}, "'NoneType' object"),
    ],
)
@pytest.mark.parametrize("where", ["parameters", "fitted"])
def test_what_is_no_value_is_refused(tmp_path, leaf, reason, where):
    others = {"parameters": {"leaf": leaf}} if where == "parameters" else {"n_": leaf}
    crafted(tmp_path / "model", Model, **others)
    with pytest.raises(ModelFileError, match=rf"fits no Model .*{reason}.*Load it"):
        load_model(tmp_path / "model", Model)


@pytest.mark.parametrize("name", ["predict", "n_leaves_", "_plan", "leaf"])
def test_only_fitted_attributes_are_set(tmp_path, name):
    crafted(tmp_path / "crafted", **{name: 1})
    with pytest.raises(ModelFileError, match=f"sets '{name}', which is no fitted"):
        SecretRegressor.load(tmp_path / "crafted")


def test_what_predicts_must_be_a_tree(tmp_path):
    crafted(tmp_path / "crafted", tree_=1)
    with pytest.raises(ModelFileError, match="no sound tree"):
        SecretRegressor.load(tmp_path / "crafted")


# Trees whose arrays do not fit each other


def test_trees_that_were_built_or_fitted_are_sound():
    for seed in range(3):
        for tree in (random_tree(seed, 9), random_tree(seed, 1, n_outputs=2)):
            assert flaw_of(tree) == flaw_of(with_gates(tree)) == ""
    for shape in SHAPES.values():
        assert flaw_of(build_tree(shape, 0)) == ""


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("left", SplitKind.AXIS, 10**6),
        ("left", SplitKind.AXIS, 0),  # walks round and round
        ("right", SplitKind.AXIS, -1),
        ("right", SplitKind.LEAF, 3),
        ("parent", SplitKind.LEAF, 10**6),
        ("depth", SplitKind.LEAF, 10**6),
        ("kind", SplitKind.AXIS, SplitKind.LEAF),
        ("kind", SplitKind.AXIS, 9),
        ("attribute", SplitKind.AXIS, 5),
        ("attribute", SplitKind.AXIS, -1),
        ("attribute", SplitKind.DISCRETE, 2),
    ],
)
def test_an_index_that_points_nowhere_is_found(tmp_path, name, kind, value):
    tree = random_tree(5, 12)
    flaw = "of no node, kind" if name in ("kind", "attribute") else "make no tree"
    array = getattr(tree, name).copy()
    array[np.flatnonzero(tree.kind == kind)[0]] = value
    save_tree(dataclasses.replace(tree, **{name: array}), tmp_path / "crafted")
    with pytest.raises(ModelFileError, match=f"crafted' holds no sound tree: .*{flaw}"):
        load_tree(tmp_path / "crafted")  # it has a checksum of its own


@pytest.mark.parametrize("name", ARRAY_FIELDS)
def test_an_array_of_another_shape_or_type_is_found(name):
    tree = random_tree(5, 12)
    array = getattr(tree, name)
    others = [array[..., :-1], array[:-1], array[None]] * (array.size > 0)
    for other in (*others, *[array.astype(float)] * (array.dtype == "i4")):
        assert flaw_of(dataclasses.replace(tree, **{name: other}))
    text = flaw_of(dataclasses.replace(tree, **{name: array.astype(str)}))
    shape = re.escape(str(array.shape))
    assert re.fullmatch(rf"{name} is <U\d+ of shape {shape}, not .* {shape}", text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("continuous", (0, 2, 3, 6, 99)),
        ("discrete", (1, -1)),
        ("categories", (("F",),)),
        ("indicators", ((0, 3),)),
        ("n_regressors", 9),
        ("center", np.zeros(2)),
        ("target_scales", ()),
        ("missing_split", (1,)),
        ("whole", (7,)),
        ("roles", ()),
    ],
)
def test_a_schema_that_does_not_fit_is_found(field, value):
    tree = random_tree(5, 12)
    schema = dataclasses.replace(tree.schema, **{field: value})
    assert flaw_of(dataclasses.replace(tree, schema=schema))


@pytest.mark.parametrize("errors", [(), (0.1,) * 9])
def test_errors_of_other_outputs_are_found(errors):
    tree = dataclasses.replace(random_tree(5, 12), full_error=errors)
    assert flaw_of(tree) == "an output has no error of full equations"


FILES = sorted(GOLDEN.glob("v*/*.model"))
# float32 of other processors and compilers differs in the last digits.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def test_every_kind_of_tree_has_a_file_of_this_version():
    found = {path.stem for path in FILES if path.parent.name == f"v{FORMAT_VERSION}"}
    assert found == {"axis", "oblique", "soft"}, (
        "run python tests/helpers/golden_files.py"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name} {p.stem}")
def test_a_file_predicts_and_reads_as_it_did(path: Path, tmp_path: Path):
    assert path.stat().st_size < 10_000
    header = json.loads(np.load(path)["header"].item())
    assert header["format_version"] == int(path.parent.name[1:])
    model = SecretRegressor.load(path)
    expected = pd.read_csv(path.with_suffix(".csv"))
    outputs = [c for c in ("prediction", "lower", "upper") if c in expected]
    rows = expected.drop(columns=outputs)
    found = {"prediction": model.predict(rows)}
    if "lower" in expected:
        found["lower"], found["upper"] = model.predict_interval(rows, 0.8)
    for name in outputs:
        np.testing.assert_allclose(found[name], expected[name], **TOLERANCE)
    assert model.feature_names_in_.tolist() == list(rows)
    kind = {"axis": SplitKind.AXIS, "oblique": SplitKind.OBLIQUE}
    if path.stem in kind:
        assert kind[path.stem] in model.tree_.kind
    assert model.tree_.is_soft == (path.stem == "soft")
    if path.parent.name == f"v{FORMAT_VERSION}":  # later versions may word it anew
        assert model.export_text() == path.with_suffix(".txt").read_text("utf-8")
    model.save(tmp_path / "again")
    again = SecretRegressor.load(tmp_path / "again")
    assert again.get_params() == model.get_params()
    assert again.export_text() == model.export_text()
