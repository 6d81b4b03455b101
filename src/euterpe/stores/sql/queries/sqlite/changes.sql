-- How many rows the statement before this one wrote.
SELECT changes()
