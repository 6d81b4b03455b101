"""What operators change while workers run."""
