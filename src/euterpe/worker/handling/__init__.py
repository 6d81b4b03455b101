"""The user's handlers: their signatures, hooks and lifespans."""
