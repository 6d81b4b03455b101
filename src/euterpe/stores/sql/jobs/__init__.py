"""The life of a job, one file for each thing that happens to it."""
