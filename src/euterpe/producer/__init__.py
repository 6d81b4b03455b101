"""The producer: files that appear in a folder become jobs, each version of a file once."""
