"""Acts on everything that matches a query: stored, and worked off in batches by any process."""
