"""The files that `pytest-netperf new` writes, with their gaps in braces."""
