-- How long transcodes took, by the work they asked for: what an estimate is made of. The newest runs of each are kept.
CREATE TABLE euterpe_transcode_runs (
    work     text NOT NULL,
    ended_at bigint NOT NULL,
    job_id   uuid NOT NULL,
    media_ms bigint NOT NULL,
    run_ms   bigint NOT NULL,
    PRIMARY KEY (work, ended_at, job_id)
);

-- Work that requests with `reuse` share: the claim that does it, and what came of it once it is done.
CREATE TABLE euterpe_transcode_shared_work (
    requester_id  text NOT NULL,
    work_key      text NOT NULL,
    job_id        uuid NOT NULL,
    claim_version bigint NOT NULL,
    begun_at      bigint NOT NULL,
    done_at       bigint,
    result        text,
    PRIMARY KEY (requester_id, work_key),
    CONSTRAINT done_with_a_result CHECK ((done_at IS NULL) = (result IS NULL))
);
