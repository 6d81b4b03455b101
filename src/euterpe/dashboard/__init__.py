"""The dashboard: pages for people, served by the API process. Nothing is built or loaded from elsewhere."""
