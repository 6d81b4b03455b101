"""The command line, run as a person runs it: real processes on real databases."""
