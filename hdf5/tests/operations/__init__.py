"""Random sequences of what people and programs do with HDF5 files, beside native HDF5."""
