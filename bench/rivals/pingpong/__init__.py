"""The measuring programs of libfabric and UCX."""
