"""The parts of a role, each from the configuration to its end: API, dashboard, outbox, producer, transcoding."""
