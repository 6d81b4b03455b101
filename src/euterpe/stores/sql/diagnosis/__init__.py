"""Looking a database over: what `euterpe doctor` asks it. Every look is bounded."""
