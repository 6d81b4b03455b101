"""What a worker and a store exchange: claims, heartbeats, reports, outcomes."""
