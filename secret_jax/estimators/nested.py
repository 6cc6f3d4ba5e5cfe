"""Fields of option values as nested parameters of their estimator."""

from dataclasses import fields, replace
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from secret_jax.estimators.parameters import NAMED, Named, value_of


class NestedParameters(BaseEstimator):
    """Mixin for parameters of nested values, addressed by two underscores."""

    _named: ClassVar[Named] = NAMED

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this estimator, with ``deep`` also those of its values.

        A name like "rss" stands for a value: ``splits__n_thresholds`` is there as well.
        """
        found = super().get_params(deep=False)
        if deep:
            for name in filter(found.__contains__, self._named):
                value = value_of(name, found[name], self._named)
                for field, its in value.get_params().items() if value else ():
                    found[f"{name}__{field}"] = its
        return found

    def set_params(self, **params: Any) -> Any:
        """Set parameters of this estimator and, with two underscores, of its values.

        Values are frozen: one with another field takes the place of the old one. An
        unknown name changes nothing, whatever else is set with it.
        """
        before = self.get_params(deep=False)
        own = {name: value for name, value in params.items() if "__" not in name}
        nested = {name: value for name, value in params.items() if "__" in name}
        try:
            super().set_params(**own)
            self._set_fields(nested)
        except Exception:
            super().set_params(**before)
            raise
        return self

    def _set_fields(self, nested: dict[str, Any]) -> None:
        changes: dict[str, dict[str, Any]] = {}
        for name in nested:
            head, _, field = name.partition("__")
            changes.setdefault(head, {})[field] = nested[name]
        for head, fields_of_head in changes.items():
            own = self.get_params(deep=False).get(head)
            value = value_of(head, own, self._named)
            known = {field.name for field in fields(value)} if value else set()
            unknown = sorted(fields_of_head.keys() - known)
            if value is None or unknown:
                name = f"{head}__{unknown[0] if unknown else min(fields_of_head)}"
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self!r}. Valid "
                    f"parameters are: {sorted(self.get_params())}."
                )
            # A name stays a name if nothing is changed.
            if not all(_same(getattr(value, f), v) for f, v in fields_of_head.items()):
                setattr(self, head, replace(value, **fields_of_head))


def _same(one: Any, other: Any) -> bool:
    """Whether two fields are equal; fields that hold arrays never are."""
    try:
        return type(one) is type(other) and bool(one == other)
    except (TypeError, ValueError):
        return False
