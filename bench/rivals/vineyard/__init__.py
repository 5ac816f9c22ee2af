"""vineyard."""
