"""Redis, asked over TCP on loopback."""
