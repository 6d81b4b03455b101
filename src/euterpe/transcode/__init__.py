"""Transcoding as a customer of the queue: media in, verified outputs out. The queue itself knows nothing of it."""
