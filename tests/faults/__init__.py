"""Real processes, real faults, and a history that is read back afterwards."""
