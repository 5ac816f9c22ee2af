"""Spark, with whichever shuffle manager."""
