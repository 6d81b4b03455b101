"""The protocol of claims, ends and operators on Postgres: every order of its statements, explored."""
