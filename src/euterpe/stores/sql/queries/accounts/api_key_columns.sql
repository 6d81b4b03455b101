k.prefix, k.requester_id, k.scopes, k.created_at, k.expires_at, k.revoked_at
