"""Jobs in Redis lists: the store for files that wait in line, by the fifth specification document."""
