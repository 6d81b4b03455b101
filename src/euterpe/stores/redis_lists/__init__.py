"""Jobs in Redis lists: the store for files that wait in line, as the specification's file pipeline (004) has them."""
