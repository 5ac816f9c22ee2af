"""libpmemobj, used as RPMP's data server used it."""
