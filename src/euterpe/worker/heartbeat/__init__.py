"""Keeping leases alive while handlers run."""
