-- How long transcodes took, by the work they asked for: what an estimate is made of. The newest runs of each are kept.
CREATE TABLE euterpe_transcode_runs (
    work     TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    job_id   TEXT NOT NULL,
    media_ms INTEGER NOT NULL,
    run_ms   INTEGER NOT NULL,
    PRIMARY KEY (work, ended_at, job_id)
) STRICT, WITHOUT ROWID;

-- Work that requests with `reuse` share: the claim that does it, and what came of it once it is done.
CREATE TABLE euterpe_transcode_shared_work (
    requester_id  TEXT NOT NULL,
    work_key      TEXT NOT NULL,
    job_id        TEXT NOT NULL,
    claim_version INTEGER NOT NULL,
    begun_at      INTEGER NOT NULL,
    done_at       INTEGER,
    result        TEXT,
    PRIMARY KEY (requester_id, work_key),
    CONSTRAINT done_with_a_result CHECK ((done_at IS NULL) = (result IS NULL))
) STRICT, WITHOUT ROWID;
