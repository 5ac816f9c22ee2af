"""LMDB, which commits each put by a sync."""
