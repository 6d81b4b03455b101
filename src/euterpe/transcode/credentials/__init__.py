"""The credentials of transcoding jobs: sealed at rest, opened in the worker alone, refreshed while it works.

Each set is one blob under a key of its own, bound to its job, its requester and its version; see `euterpe.crypto`.
A new set comes in one way only: the requester's PUT, by compare-and-set on the version. What a refresh URL answers
is never read.
"""
