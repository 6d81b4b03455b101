"""One file a page: what it reads and how it looks."""
