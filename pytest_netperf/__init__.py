"""pytest-netperf: network hardware acceptance testing with pytest and iperf3.

The public names of the package. Nothing heavy is imported here: every pytest run in an environment that has the
plugin installed loads this module.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
