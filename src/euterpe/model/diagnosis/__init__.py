"""What is looked at to tell whether a queue is well, and what is told."""
