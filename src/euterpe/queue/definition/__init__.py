"""What a user declares: job types, their options, their backoffs, their cron entries."""
