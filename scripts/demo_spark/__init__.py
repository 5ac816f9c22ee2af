"""Spark's own shuffle manager and Plasmon's, side by side: ``make demo-spark``.

::

    __main__ ──► scene: what is run, with which manager, and what came of it
       │           └──► worker (in Spark's environment): an application, jobs: what it runs
       ├───────► checks: what must hold
       └───────► report, picture: the account for people and programs
"""
