j.requester_id || chr(31) || j.concurrency_key
