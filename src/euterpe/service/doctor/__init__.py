"""`euterpe doctor`: facts are gathered, checks look at them, and each tells what to do next."""
