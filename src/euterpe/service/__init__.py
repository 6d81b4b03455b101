"""The running system: its parts put together for a role, started, watched and stopped."""
