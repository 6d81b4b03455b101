-- Jobs as their events tell of them: without the payload and the checkpoint, which no event carries.
SELECT {{callback_columns}} FROM {{jobs_now}} AS j WHERE j.id {{in ids uuid}}
