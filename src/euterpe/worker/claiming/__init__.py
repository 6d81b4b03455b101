"""Which jobs a worker takes, and when."""
