"""What is special to one kind of output: HLS, waveforms, thumbnails, loudness, tags."""
