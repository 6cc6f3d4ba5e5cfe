"""Mixin of estimators: fit and predict rows that are read in batches."""

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.encoding import Unencoded, matched
from secret_jax.estimators.stream.batches import BatchSource, Wanted, opened
from secret_jax.estimators.stream.fit import among_jax_processes, fit_stream, of_all
from secret_jax.runtime.devices import computing_on
from secret_jax.runtime.environment import imported, replacing
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Progress, shown
from secret_jax.runtime.values import at_least, check_constraints
from secret_jax.tree import routing
from secret_jax.tree.structure import Tree


class StreamMixin:
    """Methods to fit and predict rows that need not fit into memory."""

    def fit_stream(
        self: Any,
        source: Any,
        target: str | Sequence[str] = "y",
        *,
        sample_weight: str | None = None,
        columns: Sequence[str] | None = None,
        sample_rows: int | None = None,
        processes: bool = False,
    ) -> Any:
        """Grow and prune a tree on rows that are read twice, in batches.

        The first pass measures the columns and takes a sample, which grows and prunes
        the tree; the second one gives its models, from all rows. The tree is the one,
        but for rounding, that `fit` gives for the same rows with
        ``leaf=Ridge(drops_regressors=False)``: columns keep their roles.

        Parameters
        ----------
        source : path, dataset, tuple of arrays, iterable or callable
            A Parquet file or a folder of them (also of partitions named as in
            ``year=2024/``), or a ``pyarrow.dataset.Dataset``; a tuple (X, y) or
            (X, y, sample_weight) of arrays, which may be mapped from disk; what gives
            the same batches every time that it is iterated over, or a function that
            returns it. A batch is a DataFrame of any kind, an Arrow table, a dict of
            columns or a tuple of arrays, and must not be overwritten by the next one.
        target : str or sequence of str, default="y"
            The column of the output, or several; of tuples of arrays the name.
        sample_weight : str, optional
            The column of the weights.
        columns : sequence of str, optional
            By default all others.
        sample_rows : int, optional
            Number of rows that grow and prune the tree. By default as many as `fit`
            would take, but at most 524,288.
        processes : bool, default=False
            Whether this is one of several processes that
            ``jax.distributed.initialize`` has brought together, which all call this
            with rows of their own (there may be none) and all get the same tree.

        Returns
        -------
        self

        Raises
        ------
        StreamError
            A ValueError, if the source cannot be read, or its rows not used: the
            message says where. Also if the second pass finds other rows.

        Notes
        -----
        All batches have the same columns of the same kinds; types of numbers may
        differ. Of more rows than are sampled with an absolute or quantile loss, the
        units of the loss are those of the sample: the tree differs a little.

        Examples
        --------
        >>> import numpy as np
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(500, random_state=0)
        >>> parts = [(X[:300], y[:300]), (X[300:], y[300:])]
        >>> model = SecretRegressor(oblique=False, prune=None).fit_stream(parts)
        >>> whole = SecretRegressor(oblique=False, prune=None).fit(X, y)
        >>> bool(np.allclose(model.predict(X), whole.predict(X), atol=1e-6))
        True
        """
        if sample_rows is not None:
            check_constraints(
                {"sample_rows": [at_least(1)]},
                {"sample_rows": sample_rows},
                type(self).__name__,
            )
        targets = (target,) if isinstance(target, str) else tuple(target)
        chosen = None if columns is None else tuple(columns)
        plan, sources = self._plan(), list[BatchSource]()
        wanted = Wanted(targets, sample_weight, chosen)
        exchange = among_jax_processes if processes else None
        of_all(exchange, lambda: sources.append(opened(source, wanted)))
        (rows,) = sources
        with (
            shown(self.verbose) as progress,
            one_thread_for_products(),
            computing_on(self.device, n_rows=rows.n_rows),
        ):
            plan = replace(plan, progress=progress)
            finished = fit_stream(plan, rows, targets, sample_rows, exchange)
            schema = finished.tree.schema
            names = schema.input_names
            learned: dict[str, Any] = {"n_features_in_": len(names)}
            if schema.named:
                learned["feature_names_in_"] = np.array(names, object)
            self._keep(finished, **learned)
            return self._refined(plan, finished)

    def predict_stream(
        self: Any, source: Any, out: str | os.PathLike[str], *, keep: Sequence[str] = ()
    ) -> int:
        """Predict rows that are read in batches, and write Parquet.

        Parameters
        ----------
        source : path, dataset, array, tuple of arrays, iterable or callable
            As for `fit_stream`; there need be no target.
        out : path-like
            The file to write. It appears when it is complete. Its column "prediction"
            is in the order of the rows; of several targets, "prediction of" each.
        keep : sequence of str
            Columns of the source to write beside it.

        Returns
        -------
        int
            Number of rows predicted.

        Raises
        ------
        StreamError
            As of `fit_stream`.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(500, random_state=0)
        >>> model = SecretRegressor(max_depth=0).fit(X, y)
        >>> folder = getfixture("tmp_path")
        >>> model.predict_stream(X, folder / "predicted.parquet")
        500
        """
        check_is_fitted(self)
        schema = self.tree_.schema
        names = None
        if schema.named or keep:
            names = tuple(dict.fromkeys([*schema.input_names, *keep]))
        rows = opened(source, Wanted(schema.target_names, None, names, to_predict=True))
        computing = computing_on(self.device, fall_back=True, n_rows=rows.n_rows)
        with shown(self.verbose) as progress, computing:
            return _written(self.tree_, rows, out, tuple(keep), progress)


def _written(
    tree: Tree,
    source: BatchSource,
    out: str | os.PathLike[str],
    keep: tuple[str, ...],
    progress: Progress,
) -> int:
    """Write the predictions of a tree for all rows of a source."""
    pa, parquet = (
        imported(module, "Parquet files", "data")
        for module in ("pyarrow", "pyarrow.parquet")
    )
    schema, names = tree.schema, ["prediction"]
    if tree.n_outputs > 1:
        names = [f"prediction of {name}" for name in schema.target_names]

    def tables() -> Iterator[Any]:
        for batch in source.read("predicting", progress):
            given: Any = {
                name: column
                for name, column in batch.columns.items()
                if name in schema.input_names or not (schema.named or name in keep)
            }
            with batch.with_row_context():
                given = given if schema.named else list(given.values())
                found = matched(schema, given, asked=tree.asked_attributes)
                value = routing.predict(tree, Unencoded(schema, found))
            columns = {name: pa.array(batch.columns[name]) for name in keep}
            outputs = value.reshape(len(value), -1).T
            yield pa.table(columns | dict(zip(names, outputs, strict=True)))

    others, n_rows = tables(), 0
    with replacing(out) as file:
        nothing = pa.table({name: pa.array([], pa.float64()) for name in names})
        first = next(others, nothing)
        with parquet.ParquetWriter(file, first.schema) as writer:
            for table in itertools.chain([first], others):
                writer.write_table(table.cast(first.schema))
                n_rows += table.num_rows
    return n_rows
