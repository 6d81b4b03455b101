"""`--reload`: run the command again whenever a Python file of the app changes. For development."""
