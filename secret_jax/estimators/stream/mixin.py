"""Mixin of estimators: fit and predict rows that are read in batches."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.estimators.stream.batches import Wanted
from secret_jax.estimators.stream.fit import (
    StreamOptions,
    among_jax_processes,
    fit_stream,
    of_all,
)
from secret_jax.estimators.stream.predict import predict_stream
from secret_jax.estimators.stream.sources import BatchSource, opened
from secret_jax.runtime.devices import computing_on
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import shown
from secret_jax.runtime.values import at_least, check_constraints


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

        The first pass measures the columns, learns their categories and takes a sample,
        which grows and prunes the tree; the second one gives its models, from all rows.
        The tree is the one, but for rounding, that `fit` gives for the same rows with
        ``leaf=Ridge(drops_regressors=False)``: columns keep the roles that they have at
        the first pass.

        Parameters
        ----------
        source : path, dataset, tuple of arrays, iterable or callable
            A Parquet file or a folder of them (also of partitions named as in
            ``year=2024/``), or a ``pyarrow.dataset.Dataset``; a tuple (X, y) or
            (X, y, sample_weight) of arrays, which may be mapped from disk; what gives
            the same batches in the same order every time that it is iterated over, or a
            function that returns it. A batch is a DataFrame of any kind, an Arrow
            table, a dict of columns or a tuple of arrays, and is read while the next
            one is fetched: do not overwrite it.
        target : str or sequence of str, default="y"
            The column of the output, or several; of tuples of arrays the name.
        sample_weight : str, optional
            The column of the weights.
        columns : sequence of str, optional
            Columns to use; by default all others.
        sample_rows : int, optional
            Number of rows that grow and prune the tree. By default as many as `fit`
            would take (see ``max_samples`` of the split finder), but at most 524,288.
        processes : bool, default=False
            Whether this is one of several processes that
            ``jax.distributed.initialize`` has brought together, which all call this
            with rows of their own (there may be none) and all get the same tree.

        Returns
        -------
        SecretRegressor
            Itself.

        Raises
        ------
        StreamError
            A ValueError. If the source cannot be read, or its rows not used: the
            message says in which part file, batch and row. Also if the second pass
            finds more rows than the first, fewer, or others, in any order.
        ImportError
            If pyarrow is needed and not there.

        Notes
        -----
        All batches have the same columns of the same kinds; types of numbers may
        differ. Of more rows than are sampled with an absolute or quantile loss, the
        tree differs a little from that of `fit`: the units of the loss are those of the
        sample.

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
        names = None if columns is None else tuple(columns)
        plan = self._plan()
        exchange = among_jax_processes if processes else None
        sources: list[BatchSource] = []
        wanted = Wanted(targets, sample_weight, names)
        of_all(exchange, lambda: sources.append(opened(source, wanted)))
        rows = sources[0]
        options = StreamOptions(targets, sample_rows, exchange)
        with (
            shown(self.verbose) as progress,
            one_thread_for_products(),
            computing_on(self.device, n_rows=rows.n_rows),
        ):
            plan = replace(plan, progress=progress)
            finished = fit_stream(plan, rows, options)
            schema = finished.tree.schema
            names = schema.input_names
            learned: dict[str, Any] = {"n_features_in_": len(names)}
            if schema.named:
                learned["feature_names_in_"] = np.array(names, object)
            self._keep(finished, **learned)
            if not schema.named:
                self.__dict__.pop("feature_names_in_", None)
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
            A ValueError. See `fit_stream`.
        ImportError
            If pyarrow is not there.

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
        wanted = Wanted(schema.target_names, None, names)
        rows = opened(source, wanted, targets=False)
        computing = computing_on(self.device, fall_back=True, n_rows=rows.n_rows)
        with shown(self.verbose) as progress, computing:
            return predict_stream(self.tree_, rows, out, tuple(keep), progress)
