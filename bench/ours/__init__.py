"""Our own Python client, measured like a rival."""
