"""What is in a file, before and after an encode."""
