"""Commands that act on everything that matches."""
