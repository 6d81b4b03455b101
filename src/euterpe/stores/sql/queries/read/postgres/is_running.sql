j.seq = ANY (ARRAY({{running_seqs}})) AND j.lease_expires_at IS NOT NULL
