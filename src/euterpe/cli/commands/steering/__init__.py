"""What is changed while workers run."""
