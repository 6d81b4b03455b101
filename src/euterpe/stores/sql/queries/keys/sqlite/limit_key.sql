j.requester_id || char(31) || j.concurrency_key
