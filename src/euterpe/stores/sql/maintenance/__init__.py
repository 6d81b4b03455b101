"""What keeps the tables right without a worker's word: sweeps, purges, and an operator's hand."""
