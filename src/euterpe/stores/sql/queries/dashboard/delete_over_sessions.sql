-- takes: nothing
-- returns: nothing
-- locks: waits
-- Sessions whose time is over; every sign-in takes them away.
DELETE FROM euterpe_sessions WHERE expires_at <= {{now}}
