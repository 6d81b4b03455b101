"""Ways to say that work is there. The database stays the truth; a lost hint costs latency, never a job."""
