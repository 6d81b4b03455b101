"""The store's side of the HTTP worker protocol: leases known by their tokens."""
