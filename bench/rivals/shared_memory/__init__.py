"""multiprocessing.shared_memory."""
