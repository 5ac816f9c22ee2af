"""RocksDB, which syncs its log with each put."""
