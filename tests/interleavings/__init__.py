"""Any two programs, stepped statement by statement on two connections of a real Postgres."""
