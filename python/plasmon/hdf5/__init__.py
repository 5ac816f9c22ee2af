"""HDF5 files whose datasets are Arrow.

With the connector of this package an unchanged HDF5 program keeps its datasets as Arrow files
beside the HDF5 file:

    plasmon hdf5 run python analysis.py

`open` gives what such a program wrote as Arrow tables and NumPy arrays on the mapped files, without
copying:

    with plasmon.hdf5.open("run.h5") as run:
        run["particles"].table      # a pyarrow.Table
        run["field"].array          # a numpy.ndarray
        run["field"].attributes     # {"unit": "V/m"}

`append` adds rows that arrive over time to a dataset that readers see grow.
"""

from plasmon.hdf5._append import Appender, append
from plasmon.hdf5._file import Dataset, File, open
from plasmon.hdf5._plugin import PluginError
from plasmon.hdf5._settings import plugin_path

__all__ = ["Appender", "Dataset", "File", "PluginError", "append", "open", "plugin_path"]
