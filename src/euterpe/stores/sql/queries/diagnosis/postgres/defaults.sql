-- takes: nothing
-- returns: setting
-- locks: none
-- What sessions of this user and database are told by ALTER ROLE and ALTER DATABASE. Ours say otherwise themselves.
SELECT DISTINCT said.setting
FROM pg_db_role_setting AS s, unnest(s.setconfig) AS said (setting)
WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
  AND s.setrole IN (0, (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = current_user))
