"""Every process of joblib's tests knows the backend, as one does that imported it."""

import plasmon.joblib  # noqa: F401 - for what it registers
