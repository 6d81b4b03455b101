"""Negative controls: bugs that are planted into a copy of the source, and the test that must catch each."""
