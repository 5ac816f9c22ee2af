"""Registers the backend in every process of joblib's tests, as importing it does."""

import plasmon.joblib  # noqa: F401 - for what it registers
