# cython: language_level=3
"""pyarrow's MemoryPool over a Plasmon store: compiled for the pyarrow that is installed."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from pyarrow.includes.libarrow cimport CMemoryPool
from pyarrow.lib cimport MemoryPool


cdef extern from "store_pool.h" namespace "plasmon" nogil:
    cdef cppclass StorePool(CMemoryPool):
        void let_go()
    StorePool *make_pool(const void *api)
    const char *arrow_version()


ARROW_VERSION = arrow_version().decode()


cdef class StoreMemoryPool(MemoryPool):
    """A memory pool whose buffers lie in a Plasmon store.

    Pass it as ``memory_pool=`` to whatever pyarrow allocates, and ``store.put`` of what comes out
    copies nothing.
    """

    cdef StorePool *_store_pool
    cdef readonly object store
    cdef object _native

    def __init__(self, store, native):
        pass

    def __cinit__(self, store, native):
        self.store = store
        self._native = native
        # The table is the capsule's, so the capsule must outlast the call.
        capsule = native.api()
        self._store_pool = make_pool(PyCapsule_GetPointer(capsule, "plasmon_pool_api"))
        self.init(self._store_pool)

    def __dealloc__(self):
        if self._store_pool != NULL:
            self._store_pool.let_go()

    def stats(self):
        """The counters of the pool so far, as counts and bytes by name."""
        return self._native.stats()

    def holds(self, buffer):
        """Whether a pyarrow buffer lies in the pool."""
        return self._native.holds(buffer.address)
