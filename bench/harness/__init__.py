"""The harness: makes environments and stores, drives peers in interleaved rounds, renders the figures."""
