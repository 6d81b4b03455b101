"""A fault campaign: real processes, every kind of fault, and a verdict on each promise. `python -m tests.campaign`."""
