"""Our server beside others, in one run: the same texts, listeners and clock.  `python -m bench.peers --help`."""
