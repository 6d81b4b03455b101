"""Media work by ffmpeg in child processes: probe, encode, verify. Nothing here touches the queue, storage or HTTP."""
