"""Runs the tests of remote memory over verbs, in a virtual machine with a software RDMA card."""
