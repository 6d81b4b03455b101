"""What travels over HTTP, written once for server, client and command line."""
