"""Random tables of Arrow data, beside a plain reference that compares bit by bit.

Each table comes from its own seed: columns of any type, in chunks that are cut differently in
each column, as slices, with garbage where values are missing. It is put and read, sorted in three
ways, built from rows and from arrays, and read from files; what comes back is compared with what
went in, and with the order that the guide promises.

    made.py     tables from a seed
    exact.py    the values of an array with all their bits, and their order
    checks.py   what a table must pass

``python/tests/test_random_tables.py`` runs a few hundred, ``make soak NAME=tables`` as many as
there is time for.
"""
