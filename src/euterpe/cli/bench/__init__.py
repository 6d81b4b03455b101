"""`euterpe bench`: how fast this queue is on a user's own database and disk, by the code that production runs."""
