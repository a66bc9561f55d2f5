"""Power, temperature and noise of a device, beside its throughput, on one sheet."""

import pytest


@pytest.mark.netperf_limit(power="<= 15 W", temperature="<= 45 degC", source="data sheet, idle")
def test_idle(netperf_record, meters):
    power, temperature = meters
    netperf_record("power", power(loaded=False), "W")
    netperf_record("temperature", temperature(loaded=False), "degC")


@pytest.mark.netperf_link(speed="1G")
@pytest.mark.netperf_limit(throughput=">= 900 Mbps", power="<= 28 W", temperature="<= 60 degC")
def test_under_load(iperf3, netperf_record, meters):
    power, temperature = meters
    iperf3.tcp(streams=2)
    netperf_record("power", power(loaded=True), "W")
    netperf_record("temperature", temperature(loaded=True), "degC")
    netperf_record("noise", 31.5, "dBA", required=False, note="hand-held meter at 1 m, window closed")
