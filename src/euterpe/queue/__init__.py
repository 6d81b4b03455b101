"""The public API: the queue, job types, handles, workflows."""
