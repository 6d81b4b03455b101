"""Raw limits: what the disk and the bare drivers reach, to hold the queues' figures against."""
