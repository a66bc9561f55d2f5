"""The ini file of the projects in which the tests of the plugin run pytest."""

# The tester reference and the station's history have tests of their own; elsewhere the one would only take time, and
# with the other a test would see what others measured.
# Eight measurements may run at once: links of 100M do not disturb one another, nor those of other test sessions here.
INI = """
[pytest]
netperf_duration = 1
netperf_omit = 0
netperf_slots = 8
netperf_reference = off
netperf_history = off
filterwarnings =
    error
    ignore::pytest.PytestWarning
"""
