"""Side-by-side benchmark of job queues; start it with `bench/run`, read `bench/README.md` first."""
