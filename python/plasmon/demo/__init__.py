"""The main job, measured: one big table in the store, four processes that compute on it in place.

``plasmon run-demo`` runs it. The same job is then done with :mod:`multiprocessing`, which sends
the table to each process with pickle, and both are reported side by side: times, the answer, and
a proof from the kernel's own accounting that memory holds one copy.
"""
