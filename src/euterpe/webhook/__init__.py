"""What leaves the house: signed webhooks, and the one HTTP client that may call an address a requester chose.

Import from the modules: `signing` and `verifying` are pure and light enough for a receiver, `egress`
opens sockets.
"""
