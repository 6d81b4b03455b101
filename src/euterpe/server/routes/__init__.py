"""What the API answers, one file a resource."""
