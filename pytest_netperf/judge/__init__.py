"""From a measurement and its limits to a verdict with reasons. Pure: no pytest, no I/O, no clock."""
