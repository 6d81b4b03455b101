-- takes: ids
-- returns: callback_columns
-- locks: none
-- Jobs as their events tell of them: without the payload and the checkpoint, which no event carries.
SELECT {{packed callback_columns}} FROM inbox_jobs AS j WHERE j.id {{in ids uuid}}
