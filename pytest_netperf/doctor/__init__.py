"""``pytest-netperf doctor``: every precondition of a run on this machine, what is wrong, and what to do about it."""
