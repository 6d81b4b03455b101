"""A control plane as a store: every call is an HTTP request."""
