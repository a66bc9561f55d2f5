"""Traffic: a workload goes in, a result comes out."""
