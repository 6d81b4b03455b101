"""Running jobs: the loop, the attempt, the handlers, and what keeps them safe."""
