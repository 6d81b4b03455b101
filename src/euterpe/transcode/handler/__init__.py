"""The job type `transcode`: one attempt from fetching to uploading."""
