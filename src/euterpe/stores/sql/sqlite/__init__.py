"""SQLite and libsql: one writer thread with group commit."""
