"""The pure model: what a job is and which moves it may make. No I/O, no clock, no randomness of its own."""
