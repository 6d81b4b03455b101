"""`python -m euterpe.cli` is the `euterpe` script, for places where the script is not on the path."""

from euterpe.cli import main

main()
