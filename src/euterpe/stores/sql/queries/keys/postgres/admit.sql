-- takes: rows of name, look
-- returns: name, queue
-- locks: waits
-- Jobs of these keys, which are held, enter the line: the most urgent ones, as long as the key has a place for them (its limit, less what runs and
-- what is in the line) and its rate a token. None that is paused: it would leave the place empty. Returns key and queue of each.
-- For keys of which jobs ended: what is in the line stays there. `admit_in_order` is for others.
WITH {{key_room}}, looking AS MATERIALIZED (SELECT k.* FROM room AS k), {{key_ahead}}, given AS MATERIALIZED (
    SELECT k.name, k.in_line, k.least, k.next_at FROM room AS k WHERE k.due_at IS NOT NULL
), asked AS MATERIALIZED (
    SELECT a.*, (a.in_line + a.place > a.places) IS TRUE AS lacks_place, (a.in_line + a.place > a.tokens) IS TRUE AS lacks_token FROM ahead AS a
), {{key_admitted}}
SELECT a.name, a.queue FROM admitted AS a
