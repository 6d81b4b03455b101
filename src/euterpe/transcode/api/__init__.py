"""The HTTP routes of transcoding and the documents they answer."""
