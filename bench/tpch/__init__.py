"""The tables of TPC-H, made as its specification says, for suites that run its queries."""
