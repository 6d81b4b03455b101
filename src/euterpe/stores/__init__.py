"""The engines that keep jobs: SQL databases, and the control plane over HTTP."""
