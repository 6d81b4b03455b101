"""What every running part shares: waiting out an outage, waiting for an event, the deadline of a shutdown, signals."""
