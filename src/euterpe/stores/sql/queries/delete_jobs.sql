DELETE FROM inbox_jobs WHERE id {{in ids uuid}}
