inbox_jobs WHERE state = :state
