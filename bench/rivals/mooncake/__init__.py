"""Mooncake Store."""
