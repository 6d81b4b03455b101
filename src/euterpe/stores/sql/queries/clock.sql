-- The time every lease and due decision goes by.
SELECT {{now}}
