DELETE FROM ended_attempts WHERE job_id {{in ids uuid}}
