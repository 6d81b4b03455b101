"""The campaign on Redis lists: what they have no place for is not submitted, and their own promises are judged."""
