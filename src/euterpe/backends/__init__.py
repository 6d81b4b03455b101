"""From a URL to a store, its wake-ups and its keys: the only room that names concrete engines."""
