-- Workers that are alive, as they tell it themselves every now and then. Who is silent until expires_at is not alive.
-- Nothing that a worker tells again is indexed, and pages have room: an update stays on its page.
CREATE TABLE euterpe_workers (
    worker_id  text NOT NULL PRIMARY KEY,
    facts      text NOT NULL,
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL,
    expires_at bigint NOT NULL
) WITH (fillfactor = 50);
