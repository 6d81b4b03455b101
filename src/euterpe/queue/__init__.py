"""What a developer holds in the hand: the queue, job types, handles, workflows."""
