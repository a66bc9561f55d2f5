from socket_engine import SocketEngine


def pytest_netperf_engines():
    return {"sockets": SocketEngine}
