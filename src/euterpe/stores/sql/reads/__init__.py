"""Looking at jobs without changing them."""
