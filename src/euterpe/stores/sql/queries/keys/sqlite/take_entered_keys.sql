-- takes: limit
-- returns: name
-- locks: none
-- Nobody else writes while the transaction of a caller is open, so that admits its jobs itself.
SELECT name FROM euterpe_key_rates WHERE :limit IS NULL
