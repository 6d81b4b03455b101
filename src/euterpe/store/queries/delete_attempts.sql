DELETE FROM job_attempts WHERE job_id {{in ids uuid}}
