"""Whether the engine does what every engine must: the author's tests, no part of an acceptance."""

import pytest
from socket_engine import SocketEngine

from pytest_netperf.conformance import EngineConformance


class TestSocketEngine(EngineConformance):
    @pytest.fixture
    def engine(self):
        return SocketEngine()
