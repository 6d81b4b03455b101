"""One adapter file a peer, and the small protocol by which the harness drives it from another process."""
