"""The lease keeper's process: `python -m euterpe.lease_keeper`, started by a worker, never by hand."""
