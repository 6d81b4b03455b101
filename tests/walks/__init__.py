"""Keys and their lines, and the walks that find what a statement forgot, on Postgres alone."""
