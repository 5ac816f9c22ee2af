"""The benchmarks of the whole project: one harness, one suite per part, rivals kept apart.

``python -m bench <suite>`` runs ``bench/suites/<suite>.py`` and writes
``bench/results/<suite>.json``.

* :mod:`bench.case` says what is measured, :mod:`bench.run` measures it.
* :mod:`bench.worker` runs every side (ours, a rival, the machine's limit) in separate processes.
* :mod:`bench.environments` makes what a side needs: a separate environment, or our binaries.
* :mod:`bench.stats` condenses samples, :mod:`bench.report` shows them.

Deliberately absent: any timing in this process. Workers time themselves; the harness only asks,
in turns, so that whatever disturbs the machine disturbs every side alike.
"""
