"""The SQL engines: one store, written once as programs of statements; the drivers only know how to run them."""
