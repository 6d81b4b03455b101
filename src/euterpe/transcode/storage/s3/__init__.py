"""S3 and its kin: signed requests, objects, uploads in parts."""
