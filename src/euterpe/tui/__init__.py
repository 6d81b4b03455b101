"""`euterpe top`: the queue in a terminal, live."""
