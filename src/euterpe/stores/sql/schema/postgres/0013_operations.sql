-- Acts on everything that matches a query. `place` moves down with every batch, in the transaction that acts on it.
CREATE TABLE euterpe_operations (
    id              uuid    NOT NULL PRIMARY KEY,
    ordered_by      text    NOT NULL,
    requester_id    text,
    action          text    NOT NULL CHECK (action IN ('cancel', 'retry', 'replay')),
    force           boolean NOT NULL DEFAULT false,
    query           text    NOT NULL,
    resolved        text    NOT NULL,
    idempotency_key text,
    state           text    NOT NULL CHECK (state IN ('running', 'completed', 'cancelled')),
    place           bigint NOT NULL,
    total           bigint NOT NULL,
    total_exact     boolean NOT NULL,
    done            bigint NOT NULL DEFAULT 0,
    skipped         text    NOT NULL DEFAULT '{}',
    failed          bigint NOT NULL DEFAULT 0,
    error           text,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL,
    completed_at    bigint
);
CREATE UNIQUE INDEX euterpe_operations_key ON euterpe_operations (ordered_by, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX euterpe_operations_running ON euterpe_operations (created_at) WHERE state = 'running';
CREATE INDEX euterpe_operations_age ON euterpe_operations (created_at, id);
