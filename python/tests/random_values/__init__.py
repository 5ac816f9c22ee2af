"""Random values, and whether what comes back is what went in.

Each value comes from its own seed. It goes through ``dumps`` and ``loads``, with and without
pickle, and through a store, at the top level as inside a list; what comes back must be like it in
value, type, element type, flags, sharing and attributes. Where it is not, pickle is asked: what
pickle doesn't keep either, need not come back.

Values are made by generators, which modules of this package register::

    from .registry import Make, generator
    from .compare import Compare, comparison

    @generator("pandas.Series")
    def series(make: Make) -> Any:
        return pd.Series(make.items(make.integer))

    @comparison(pd.Series)
    def same_series(a: pd.Series, b: pd.Series, compare: Compare) -> None:
        compare.part(a.index, b.index, ".index")

A module is named in :data:`registry.MODULES`; it is left out where the libraries that it imports
are not there. :mod:`.checks` has what a value must pass, :mod:`.__main__` is the soak.
"""
