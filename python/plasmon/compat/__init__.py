"""Interfaces of libraries that are gone, over Plasmon: old programs run by changing an import.

* :mod:`plasmon.compat.pyarrow_serialization`: ``pyarrow.serialize`` and everything around it, which
  pyarrow had until version 11.
* :mod:`plasmon.plasma` is the same for ``pyarrow.plasma``.
"""
