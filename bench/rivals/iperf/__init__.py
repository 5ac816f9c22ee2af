"""iperf3, which sends bytes over TCP as fast as it goes."""
