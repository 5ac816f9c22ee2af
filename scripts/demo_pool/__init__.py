"""Three nodes of a pool on one machine, one table, and a node that dies: ``make demo-pool``.

The nodes are network namespaces that a bridge joins, or addresses of the loopback device where
those are not allowed. Each has a store of its own, with its keeper and its pool daemon, and
processes that read.

    network      where the nodes are, what bytes go in and out of them, and how one is cut off
    processes    processes that are found by a mark in their environment, and killed by it; etcd
    node         one node: its store, what it holds, the memory of its processes
    worker       the program that makes, puts and reads the table on a node; the demo's end of it
    scene        the story: put, read, kill, repair
    checks       what must hold
    report       the account of it, for people or as JSON
"""
