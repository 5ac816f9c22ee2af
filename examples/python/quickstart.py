"""Objects in shared memory, in five minutes. Run it: ``python quickstart.py``."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pandas as pd

import plasmon


def mean_price(socket: str) -> float:
    """What a worker does: it reads the table where it lies."""
    with plasmon.connect(socket) as store:
        return float(store.get("sales", namespace="quickstart")["price"].mean())


def main() -> None:
    """Puts, gets, names, writes in place and shares with processes."""
    with plasmon.start(capacity="256m") as store:
        # A value becomes an immutable object: one copy, into shared memory.
        numbers = store.put(np.arange(1_000_000))

        # Reading makes no copy, whatever the size: the array lies on the object's memory.
        array = store.get(numbers)
        assert not array.flags.writeable
        print("sum:", array.sum())

        # A name is found by every process.
        sales = pd.DataFrame({"item": ["tea", "mate", "coffee"], "price": [3.0, 4.0, 2.0]})
        store.put(sales, name="sales", namespace="quickstart", metadata=b"euro")
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            print("means:", pool.map(mean_price, [str(store.socket)] * 2))

        # Results can be written in place: no copy at all.
        with store.create(8 * 1000, name="squares") as writer:
            np.square(np.arange(1000.0), out=np.frombuffer(writer, np.float64))
        print("squares:", np.frombuffer(store.get_buffer("squares").data, np.float64)[:4])

        # An object that was deleted stays while it is being read.
        store.delete(numbers)
        assert array[-1] == 999_999
        assert not store.contains(numbers)
        print("objects:", [info.name for info in store.list()])


if __name__ == "__main__":
    main()
