"""HTTP itself: connections within limits, requests, routing, problem documents."""
