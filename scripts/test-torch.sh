#!/usr/bin/env bash
# Tests tensors with PyTorch itself, in a separate environment: .venvs/torch.
#
# The package for Linux brings several gigabytes of libraries for graphics processors, which is why
# this suite is not among those of `make test`. pip's own settings decide where it comes from; an
# index with builds for the processor alone makes it a tenth of that. The package under test is the
# one in python/, with the native module that `make setup` built.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venvs/torch/bin/python
wanted=python/tests/objects/torch-requirements.txt
if ! cmp --silent "$wanted" .venvs/torch/made-from; then
    rm -rf .venvs/torch
    .venv/bin/python -m venv .venvs/torch
    "$python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" .venvs/torch/made-from
fi
"$python" -c 'import torch; print("PyTorch", torch.__version__)'
export PLASMON_DAEMON=${PLASMON_DAEMON:-$PWD/.venv/bin/plasmond}
PYTHONPATH=python exec "$python" -m pytest -q python/tests/objects/test_torch.py
