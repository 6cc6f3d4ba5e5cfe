"""What will make a fit long, said before it begins."""

from __future__ import annotations

from secret_jax.data.schema import TableSchema

# A search with fewer terms in its models is quick, however many rows there are.
_FEW_TERMS = 30
# Rows times squared terms from which on a fit takes about a minute of a processor.
_MUCH = 100_000_000


def what_takes_long(
    schema: TableSchema, n_rows: int, *, oblique: bool, indicators: bool
) -> str:
    """A sentence on what makes a fit long and what would be quicker.

    Parameters
    ----------
    n_rows : int
        Those that grow the tree.
    oblique : bool
        Whether splits may be oblique.
    indicators : bool
        Whether it is the user's to do without indicators.

    Returns
    -------
    str
        Empty where nothing takes long.
    """
    terms = schema.n_regressors
    if terms < _FEW_TERMS or n_rows * terms**2 < _MUCH:
        return ""
    columns = len(schema.names)
    remedies = []
    what = f"{n_rows:,} rows and {terms} model terms from {columns} columns"
    if indicators and schema.n_indicators:
        what += (
            f", {schema.n_indicators} of them indicators of categories or of missing "
            "values"
        )
        remedies.append("without indicators")
    if oblique:
        remedies.append("without oblique splits")
    quicker = f"; it is quicker {' or '.join(remedies)}" if remedies else ""
    return f"note: {what}: the fit may take minutes{quicker}"
