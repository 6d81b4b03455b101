"""From a call in the user's code to a stored job."""
