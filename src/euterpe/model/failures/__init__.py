"""Why an attempt failed, and when it is tried again."""
