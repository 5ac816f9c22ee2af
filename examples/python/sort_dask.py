"""The same sort with Dask workers that are Plasmon clients: ``python sort_dask.py``.

Dask decides where tasks run; the rows stay in the store of the machine. Each task makes some of the
partitions: tasks that are given the same inputs, order and number of partitions agree on what is in
each, so nothing but ids passes through Dask. With several machines there is a store on each, and
the plan is the one in docs/guides/sort.md.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

import plasmon

PARTITIONS = 4


def make(socket: str, inputs: list[plasmon.ObjectId], at: int) -> plasmon.ObjectId:
    """A task: one sorted partition of the inputs."""
    with plasmon.connect(socket) as store:
        return plasmon.sort_partition(inputs, "key", part=at, partitions=PARTITIONS, store=store)


def main() -> None:
    """Sorts with two local Dask workers."""
    try:
        from dask.distributed import Client
    except ImportError:
        print("this example needs Dask: pip install 'dask[distributed]'")
        sys.exit(0)
    random = np.random.default_rng(7)
    with plasmon.start(capacity="256m") as store:
        inputs = [store.put(pa.table({"key": random.random(100_000)})) for _ in range(4)]
        with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
            tasks = [client.submit(make, str(store.socket), inputs, at) for at in range(PARTITIONS)]
            ids = client.gather(tasks)
        keys = np.concatenate([store.get(id)["key"].to_numpy() for id in ids])
        assert len(keys) == 400_000
        assert (keys[:-1] <= keys[1:]).all()
        print(f"{len(keys):,} rows sorted by two Dask workers into {len(ids)} partitions")


if __name__ == "__main__":
    main()
