"""Refused statements: at every statement of every program the database says no, in each way that it can."""
