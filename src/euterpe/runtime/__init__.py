"""Parts that every running thing shares: outages waited out, circuit breakers, deadlines of a shutdown."""
