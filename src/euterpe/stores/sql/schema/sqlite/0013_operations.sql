-- Acts on everything that matches a query. `place` moves down with every batch, in the transaction that acts on it.
CREATE TABLE euterpe_operations (
    id              TEXT    NOT NULL PRIMARY KEY,
    ordered_by      TEXT    NOT NULL,
    requester_id    TEXT,
    action          TEXT    NOT NULL CHECK (action IN ('cancel', 'retry', 'replay')),
    force           INTEGER NOT NULL DEFAULT false,
    query           TEXT    NOT NULL,
    resolved        TEXT    NOT NULL,
    idempotency_key TEXT,
    state           TEXT    NOT NULL CHECK (state IN ('running', 'completed', 'cancelled')),
    place           INTEGER NOT NULL,
    total           INTEGER NOT NULL,
    total_exact     INTEGER NOT NULL,
    done            INTEGER NOT NULL DEFAULT 0,
    skipped         TEXT    NOT NULL DEFAULT '{}',
    failed          INTEGER NOT NULL DEFAULT 0,
    error           TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    completed_at    INTEGER
) STRICT;
CREATE UNIQUE INDEX euterpe_operations_key ON euterpe_operations (ordered_by, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX euterpe_operations_running ON euterpe_operations (created_at) WHERE state = 'running';
CREATE INDEX euterpe_operations_age ON euterpe_operations (created_at, id);
