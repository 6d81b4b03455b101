"""What goes into a queue: submissions, batches, references, replays."""
