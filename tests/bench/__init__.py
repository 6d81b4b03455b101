"""A smoke of the benchmark, so that it never rots: no network, no peers' environments, a few seconds."""
