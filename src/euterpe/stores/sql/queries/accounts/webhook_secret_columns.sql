s.id, s.requester_id, s.encrypted, s.dek_wrapped, s.kek_id, s.encryption_version, s.created_at, s.retired_at
