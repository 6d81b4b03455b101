"""ffmpeg as a child process: found, limited, watched, understood."""
