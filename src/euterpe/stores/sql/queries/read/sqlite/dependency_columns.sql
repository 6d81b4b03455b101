d.job_id, d.depends_on, d.position
