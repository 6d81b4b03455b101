"""The HTTP control plane: the jobs API for requesters and the worker protocol for workers in any language."""
