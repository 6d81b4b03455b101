"""What a dashboard reads of the database, and who is signed in to it."""
