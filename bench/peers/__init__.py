"""Comparison of this server with others on one machine: `python -m bench.peers --help`."""
