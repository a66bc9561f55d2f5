"""The load of the router's CPU, beside what the hosts measure: from a router that answers by SNMP."""

from pytest_netperf.probes import snmp_cpu


def pytest_addoption(parser):
    parser.addoption("--router", metavar="HOST", help="ask the router at this address for its CPU load (SNMP, public)")


def pytest_netperf_probes(config):
    host = config.getoption("--router")
    return [snmp_cpu(host)] if host else None
