"""How long the burn-in takes: 30 minutes on a device, less where only the suite itself is tried."""


def pytest_addoption(parser):
    parser.addoption("--burn-in", type=int, default=1800, metavar="S", help="seconds of the burn-in (default: 1800)")
