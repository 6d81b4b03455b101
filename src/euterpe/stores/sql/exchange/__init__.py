"""A worker's exchange: settle the attempts that ended and claim the next jobs. How that is done, in a minute:

The row of `inbox_jobs` is the truth. A claim writes state, version, worker and lease onto it. An end writes the row
where id, version and lease are those of the claim; a row that does not match is stale, and nothing is written for it.

A turn (`Exchange.run`) takes a `SettleBatch`, what ended, and a `ClaimRequest`, what is wanted.

- Postgres (`postgres.py`). If nothing follows from what ended (`plain.py`), the turn is one statement, `turn.sql`: it
  ends those jobs, takes runs from the front of the line, and writes the rows of what it took. Else it is one
  transaction: `jobs/settle.py` ends each, `jobs/effects.py` inserts events, releases dependents and frees keys, and
  `turn.sql` claims. A claim that came short because others held a part of the line asks again at once.
- SQLite (`sqlite.py`). One writer, so it looks first and writes then, in one commit. Completions go by what the claims
  in memory say (`claimed_completions.py`); if a row says more, the commit is undone and the full path settles them.

Workers over HTTP use the same exchange; `worker_protocol/` checks their lease tokens before.
"""
