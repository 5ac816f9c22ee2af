"""Plasma."""
