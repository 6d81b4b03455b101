"""URLs and host names as requesters write them."""
