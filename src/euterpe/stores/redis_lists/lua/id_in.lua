-- The id of an entry that Redis reads and Python does not: its JSON is laxer, as with NaN or a line break in a text.
-- ARGV: the entry.
return id_of(ARGV[1])
