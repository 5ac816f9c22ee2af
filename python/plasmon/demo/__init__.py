"""The main job, measured: one big table in the store, four processes that compute on it in place.

``plasmon run-demo`` runs it. The same job is then done in other ways, by forks, a mapped file,
shared memory, joblib's memory maps, Ray and pickle, and all are reported side by side: times, the
answers, the memory of one to sixteen readers, and a proof from the kernel's own accounting that
memory holds one copy. While sixteen processes read, the daemon is killed.
"""
