--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: public; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA public;


--
-- Name: SCHEMA public; Type: COMMENT; Schema: -; Owner: -
--

COMMENT ON SCHEMA public IS 'standard public schema';


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: euterpe_api_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_api_keys (
    prefix text NOT NULL,
    requester_id text NOT NULL,
    secret_hash bytea NOT NULL,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);


--
-- Name: euterpe_ended_attempts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_ended_attempts (
    job_id uuid NOT NULL,
    claim_version bigint NOT NULL,
    attempt integer NOT NULL,
    worker_id text,
    started_at bigint NOT NULL,
    ended_at bigint NOT NULL,
    outcome text NOT NULL,
    state text NOT NULL,
    error text,
    lease_token_hash bytea,
    outcome_hash bytea
);


--
-- Name: inbox_jobs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.inbox_jobs (
    seq bigint NOT NULL,
    id uuid NOT NULL,
    requester_id text NOT NULL,
    queue text NOT NULL,
    type text NOT NULL,
    priority smallint NOT NULL,
    payload_format text DEFAULT 'json'::text NOT NULL,
    callback_events text DEFAULT 'all'::text NOT NULL,
    max_attempts integer NOT NULL,
    depth smallint DEFAULT 1 NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    execution_timeout_us bigint NOT NULL,
    visibility_us bigint NOT NULL,
    concurrency_limit integer,
    payload bytea NOT NULL,
    stages text,
    retry_policy text,
    tags text,
    correlation_id text,
    callback_url text,
    idempotency_key text,
    dependency text,
    parent_id uuid,
    replay_of uuid,
    concurrency_key text,
    state text NOT NULL,
    stage text,
    stage_ordinal smallint DEFAULT 0 NOT NULL,
    attempt_count integer DEFAULT 0 NOT NULL,
    release_count integer DEFAULT 0 NOT NULL,
    claim_version bigint DEFAULT 0 NOT NULL,
    transitions bigint DEFAULT 1 NOT NULL,
    worker_id text,
    lease_token_hash bytea,
    outcome_hash bytea,
    lease_expires_at bigint,
    heartbeat_at bigint,
    run_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    scheduled_at bigint,
    started_at bigint,
    completed_at bigint,
    cancel_version bigint,
    pending_dependencies integer DEFAULT 0 NOT NULL,
    has_dependents boolean DEFAULT false NOT NULL,
    parked boolean DEFAULT false NOT NULL,
    progress double precision,
    progress_message text,
    result bytea,
    error text,
    checkpoint bytea,
    CONSTRAINT inbox_jobs_priority_check CHECK (((priority >= 0) AND (priority <= 4))),
    CONSTRAINT pending_means_waiting CHECK (((state = 'pending'::text) = (pending_dependencies > 0))),
    CONSTRAINT running_means_leased CHECK (((state = 'running'::text) = (lease_expires_at IS NOT NULL)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0.1', autovacuum_analyze_scale_factor='0.05');


--
-- Name: euterpe_jobs; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.euterpe_jobs AS
 SELECT id,
    type,
    queue,
    state,
    stage,
    priority,
    attempt_count,
    max_attempts,
    claim_version,
    worker_id,
        CASE payload_format
            WHEN 'json'::text THEN convert_from(payload, 'UTF8'::name)
            ELSE NULL::text
        END AS payload,
    convert_from(result, 'UTF8'::name) AS result,
    error,
    tags,
    to_timestamp((((created_at)::numeric / '1000000'::numeric))::double precision) AS created_at,
    to_timestamp((((run_at)::numeric / '1000000'::numeric))::double precision) AS run_at,
    to_timestamp((((started_at)::numeric / '1000000'::numeric))::double precision) AS started_at,
    to_timestamp((((completed_at)::numeric / '1000000'::numeric))::double precision) AS completed_at,
    to_timestamp((((lease_expires_at)::numeric / '1000000'::numeric))::double precision) AS lease_expires_at,
    to_timestamp((((expires_at)::numeric / '1000000'::numeric))::double precision) AS expires_at
   FROM public.inbox_jobs;


--
-- Name: euterpe_migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at bigint NOT NULL
);


--
-- Name: euterpe_outbox_deliveries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_outbox_deliveries (
    event_id uuid NOT NULL,
    claim_version bigint NOT NULL,
    attempt integer NOT NULL,
    worker_id text,
    started_at bigint NOT NULL,
    ended_at bigint NOT NULL,
    outcome text NOT NULL,
    http_status integer,
    answer text,
    error text
);


--
-- Name: euterpe_pauses; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_pauses (
    kind text NOT NULL,
    name text NOT NULL,
    paused_at bigint NOT NULL,
    CONSTRAINT euterpe_pauses_kind_check CHECK ((kind = ANY (ARRAY['queue'::text, 'type'::text])))
);


--
-- Name: euterpe_rate_limits; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_rate_limits (
    name text NOT NULL,
    next_at bigint NOT NULL
);


--
-- Name: euterpe_requesters; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_requesters (
    id text NOT NULL,
    created_at bigint NOT NULL
);


--
-- Name: euterpe_tombstones; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_tombstones (
    job_id uuid NOT NULL,
    requester_id text NOT NULL,
    state text NOT NULL,
    pruned_at bigint NOT NULL
);


--
-- Name: euterpe_transcode_credentials; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_transcode_credentials (
    job_id uuid NOT NULL,
    requester_id text NOT NULL,
    credential_version integer NOT NULL,
    locations text NOT NULL,
    source_bucket text,
    source_key text,
    destination_bucket text,
    destination_prefix text,
    refresh_url text,
    refresh_id text,
    refresh_attempts integer DEFAULT 0 NOT NULL,
    decrypt_failures integer DEFAULT 0 NOT NULL,
    expires_at bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    storage_creds_encrypted bytea,
    storage_creds_dek_wrapped bytea,
    storage_creds_kek_id text,
    storage_creds_encryption_version integer,
    CONSTRAINT sealed_whole_or_not_at_all CHECK ((((storage_creds_encrypted IS NULL) = (storage_creds_dek_wrapped IS NULL)) AND ((storage_creds_encrypted IS NULL) = (storage_creds_kek_id IS NULL)) AND ((storage_creds_encrypted IS NULL) = (storage_creds_encryption_version IS NULL))))
);


--
-- Name: euterpe_transcode_uploads; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_transcode_uploads (
    job_id uuid NOT NULL,
    object_key text NOT NULL,
    upload_id text NOT NULL,
    claim_version integer NOT NULL,
    created_at bigint NOT NULL
);


--
-- Name: euterpe_unwatched_dependencies; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_unwatched_dependencies (
    job_id uuid NOT NULL,
    depends_on text NOT NULL
);


--
-- Name: euterpe_webhook_secrets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.euterpe_webhook_secrets (
    id text NOT NULL,
    requester_id text NOT NULL,
    encrypted bytea NOT NULL,
    dek_wrapped bytea NOT NULL,
    kek_id text NOT NULL,
    encryption_version integer NOT NULL,
    created_at bigint NOT NULL,
    retired_at bigint
);


--
-- Name: idempotency_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.idempotency_keys (
    scope text NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL,
    job_id uuid NOT NULL,
    response bytea,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);


--
-- Name: inbox_jobs_seq_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.inbox_jobs ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.inbox_jobs_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: job_attempts; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.job_attempts AS
 SELECT euterpe_ended_attempts.job_id,
    euterpe_ended_attempts.claim_version,
    euterpe_ended_attempts.attempt,
    euterpe_ended_attempts.worker_id,
    euterpe_ended_attempts.started_at,
    euterpe_ended_attempts.ended_at,
    euterpe_ended_attempts.outcome,
    euterpe_ended_attempts.state,
    euterpe_ended_attempts.error,
    euterpe_ended_attempts.lease_token_hash,
    euterpe_ended_attempts.outcome_hash
   FROM public.euterpe_ended_attempts
UNION ALL
 SELECT inbox_jobs.id AS job_id,
    inbox_jobs.claim_version,
    inbox_jobs.attempt_count AS attempt,
    inbox_jobs.worker_id,
    inbox_jobs.started_at,
    inbox_jobs.completed_at AS ended_at,
    'completed'::text AS outcome,
    inbox_jobs.state,
    NULL::text AS error,
    inbox_jobs.lease_token_hash,
    inbox_jobs.outcome_hash
   FROM public.inbox_jobs
  WHERE (inbox_jobs.state = 'completed'::text);


--
-- Name: job_dependencies; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.job_dependencies (
    job_id uuid NOT NULL,
    depends_on uuid NOT NULL
);


--
-- Name: job_outbox_events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.job_outbox_events (
    seq bigint NOT NULL,
    id uuid NOT NULL,
    job_id uuid NOT NULL,
    requester_id text NOT NULL,
    sequence bigint NOT NULL,
    type text NOT NULL,
    url text NOT NULL,
    origin text NOT NULL,
    body bytea NOT NULL,
    state text NOT NULL,
    attempt_count integer DEFAULT 0 NOT NULL,
    claim_version bigint DEFAULT 0 NOT NULL,
    worker_id text,
    lease_expires_at bigint,
    heartbeat_at bigint,
    run_at bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    started_at bigint,
    completed_at bigint,
    error text,
    CONSTRAINT job_outbox_events_state_check CHECK ((state = ANY (ARRAY['scheduled'::text, 'running'::text, 'retrying'::text, 'completed'::text, 'dead_letter'::text]))),
    CONSTRAINT running_means_leased CHECK (((state = 'running'::text) = (lease_expires_at IS NOT NULL)))
)
WITH (fillfactor='85', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');


--
-- Name: job_outbox_events_seq_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.job_outbox_events ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.job_outbox_events_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Data for Name: euterpe_api_keys; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: euterpe_ended_attempts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.euterpe_ended_attempts VALUES ('8b517943-edf1-4040-9852-dd3b4073d784', 1, 1, 'worker:0d0b3e6c-5a01-4e9c-a47f-738a78a70adc', 1794887912961698, 1794887913059631, 'temporary', 'dead_letter', '{"code":"temporary","category":"temporary","message":"upstream is down","retryable":false,"attempt":1,"stack":"Traceback (most recent call last):\n  File \"/tmp/shipold/src/euterpe/worker/attempt.py\", line 123, in run\n    value = await (self._start() if self.handler.mode == \"async\" else self._elsewhere(means))\n            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/makeold.py\", line 12, in dies\n    async def dies(n: int) -> None: raise euterpe.TemporaryError(\"upstream is down\")\n                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\neuterpe.model.errors.TemporaryError: upstream is down\n"}', NULL, NULL);


--
-- Data for Name: euterpe_migrations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.euterpe_migrations VALUES (1, 'jobs', 1794887912384699);
INSERT INTO public.euterpe_migrations VALUES (2, 'prefixed_names', 1794887912451487);
INSERT INTO public.euterpe_migrations VALUES (4, 'locks_and_limits', 1794887912527117);
INSERT INTO public.euterpe_migrations VALUES (6, 'event_turns', 1794887912535016);
INSERT INTO public.euterpe_migrations VALUES (7, 'transcode_credentials', 1794887912579134);
INSERT INTO public.euterpe_migrations VALUES (12, 'rate_limits', 1794887912599079);


--
-- Data for Name: euterpe_outbox_deliveries; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: euterpe_pauses; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.euterpe_pauses VALUES ('type', 'paused', 1794887913835893);


--
-- Data for Name: euterpe_rate_limits; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: euterpe_requesters; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: euterpe_tombstones; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: euterpe_transcode_credentials; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: euterpe_transcode_uploads; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: euterpe_unwatched_dependencies; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: euterpe_webhook_secrets; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: idempotency_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.idempotency_keys VALUES ('5:local/greet', 'hello', '\x70bb070359c9451423b88bb3a4f1a505b91163c604b5671bb1818a07377f1b26', 'd36aca1b-0912-4e61-8cfa-bba0e552a869', '\x7b226a6f625f6964223a2264333661636131622d303931322d346536312d386366612d626261306535353261383639222c2274797065223a226772656574222c227175657565223a2264656661756c74222c227374617465223a227363686564756c6564222c227072696f72697479223a2268696768222c22637265617465645f6174223a22323032362d31312d31375430333a35383a33332e3534393833335a222c22636f7272656c6174696f6e5f6964223a6e756c6c7d', 1794887913517456, 1794974313517456);


--
-- Data for Name: inbox_jobs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.inbox_jobs OVERRIDING SYSTEM VALUE VALUES (1, '3ef2d195-a6e2-4d5c-b8dd-41af62832638', 'local', 'default', 'done', 2, 'json', 'all', 3, 1, 1794887912690113, 1795492712690113, 1800000000, 300000000, NULL, '\x7b226e223a317d', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'completed', 'claimed', 0, 1, 0, 1, 3, 'worker:0d0b3e6c-5a01-4e9c-a47f-738a78a70adc', NULL, NULL, NULL, 1794887912961698, 1794887912690113, 1794887913059631, 1794887912690113, 1794887912961698, 1794887913059631, NULL, 0, false, false, NULL, NULL, '\x7b226e223a317d', NULL, NULL);
INSERT INTO public.inbox_jobs OVERRIDING SYSTEM VALUE VALUES (2, '8b517943-edf1-4040-9852-dd3b4073d784', 'local', 'default', 'dies', 2, 'json', 'all', 1, 1, 1794887912711942, 1795492712711942, 1800000000, 300000000, NULL, '\x7b226e223a327d', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'dead_letter', 'claimed', 0, 1, 0, 1, 4, 'worker:0d0b3e6c-5a01-4e9c-a47f-738a78a70adc', NULL, NULL, NULL, 1794887912961698, 1794887912711942, 1794887913059631, 1794887912711942, 1794887912961698, 1794887913059631, NULL, 0, false, false, NULL, NULL, NULL, '{"code":"temporary","category":"temporary","message":"upstream is down","retryable":false,"attempt":1,"stack":"Traceback (most recent call last):\n  File \"/tmp/shipold/src/euterpe/worker/attempt.py\", line 123, in run\n    value = await (self._start() if self.handler.mode == \"async\" else self._elsewhere(means))\n            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/makeold.py\", line 12, in dies\n    async def dies(n: int) -> None: raise euterpe.TemporaryError(\"upstream is down\")\n                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\neuterpe.model.errors.TemporaryError: upstream is down\n"}', NULL);
INSERT INTO public.inbox_jobs OVERRIDING SYSTEM VALUE VALUES (3, 'd36aca1b-0912-4e61-8cfa-bba0e552a869', 'local', 'default', 'greet', 1, 'json', 'all', 3, 1, 1794887913549833, 1795492713549833, 1800000000, 300000000, NULL, '\x7b226e616d65223a22616461227d', NULL, NULL, '{"team":"a"}', NULL, 'https://receiver.example/hook', 'hello', NULL, NULL, NULL, NULL, 'scheduled', NULL, 0, 0, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, 1794887913549833, 1794887913549833, 1794887913549833, NULL, NULL, NULL, 0, true, false, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.inbox_jobs OVERRIDING SYSTEM VALUE VALUES (4, '9b8f8ac0-c567-429e-9f5c-0cbbe8cc87f4', 'local', 'default', 'greet', 1, 'json', 'all', 3, 2, 1794887913695153, 1795492713695153, 1800000000, 300000000, NULL, '\x7b226e616d65223a226166746572227d', NULL, NULL, NULL, NULL, 'https://receiver.example/hook', NULL, 'after', NULL, NULL, NULL, 'pending', NULL, 0, 0, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, 1794887913695153, 1794887913695153, NULL, NULL, NULL, NULL, 1, false, false, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.inbox_jobs OVERRIDING SYSTEM VALUE VALUES (5, '144d0ec2-2da3-4a7b-94b9-9980bf159719', 'local', 'default', 'greet', 2, 'json', 'all', 3, 1, 1794887913747898, 1795492713747898, 1800000000, 300000000, NULL, '\x7b226e616d65223a226c61746572227d', NULL, NULL, NULL, NULL, 'https://receiver.example/hook', NULL, NULL, NULL, NULL, NULL, 'delayed', NULL, 0, 0, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, 1794887913847898, 1794887913747898, NULL, NULL, NULL, NULL, 0, false, false, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.inbox_jobs OVERRIDING SYSTEM VALUE VALUES (6, 'ea550966-4e4a-40f6-a054-a3257ede4840', 'local', 'lost', 'greet', 2, 'json', 'all', 3, 1, 1794887913759346, 1795492713759346, 1800000000, 1000000, NULL, '\x7b226e616d65223a2274616b656e227d', NULL, NULL, NULL, NULL, 'https://receiver.example/hook', NULL, NULL, NULL, NULL, NULL, 'running', 'claimed', 0, 1, 0, 1, 2, 'gone', NULL, NULL, 1794887914800459, 1794887913800459, 1794887913759346, 1794887913800459, 1794887913759346, 1794887913800459, NULL, NULL, 0, false, false, NULL, NULL, NULL, NULL, NULL);


--
-- Data for Name: job_dependencies; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.job_dependencies VALUES ('9b8f8ac0-c567-429e-9f5c-0cbbe8cc87f4', 'd36aca1b-0912-4e61-8cfa-bba0e552a869');


--
-- Data for Name: job_outbox_events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.job_outbox_events OVERRIDING SYSTEM VALUE VALUES (1, '711027bc-8601-4173-86ed-31a33a00af45', 'ea550966-4e4a-40f6-a054-a3257ede4840', 'local', 2, 'job.running', 'https://receiver.example/hook', 'https://receiver.example', '\x7b226576656e745f6964223a2237313130323762632d383630312d343137332d383665642d333161333361303061663435222c2274797065223a226a6f622e72756e6e696e67222c227061796c6f61645f76657273696f6e223a312c2273657175656e6365223a322c22637265617465645f6174223a22323032362d31312d31375430333a35383a33332e3830303435395a222c226a6f62223a7b226a6f625f6964223a2265613535303936362d346534612d343066362d613035342d613332353765646534383430222c2274797065223a226772656574222c227175657565223a226c6f7374222c227374617465223a2272756e6e696e67222c227374616765223a22636c61696d6564222c22737461747573223a22636c61696d6564222c227072696f72697479223a226e6f726d616c222c22617474656d7074223a312c226d61785f617474656d707473223a332c22617474656d70745f6964223a2265613535303936362d346534612d343066362d613035342d6133323537656465343834303a31222c2270726576696f75735f617474656d70745f6964223a6e756c6c2c22636c61696d5f76657273696f6e223a312c22776f726b65725f6964223a22676f6e65222c2270726f6772657373223a6e756c6c2c2274616773223a7b7d2c22636f7272656c6174696f6e5f6964223a6e756c6c2c2263616c6c6261636b5f75726c223a2268747470733a2f2f72656365697665722e6578616d706c652f686f6f6b222c22706172656e745f6964223a6e756c6c2c227265706c61795f6f66223a6e756c6c2c22637265617465645f6174223a22323032362d31312d31375430333a35383a33332e3735393334365a222c22757064617465645f6174223a22323032362d31312d31375430333a35383a33332e3830303435395a222c2272756e5f6174223a22323032362d31312d31375430333a35383a33332e3735393334365a222c227363686564756c65645f6174223a22323032362d31312d31375430333a35383a33332e3735393334365a222c22737461727465645f6174223a22323032362d31312d31375430333a35383a33332e3830303435395a222c22636f6d706c657465645f6174223a6e756c6c2c22657870697265735f6174223a22323032362d31312d32345430333a35383a33332e3735393334365a222c226865617274626561745f6174223a22323032362d31312d31375430333a35383a33332e3830303435395a222c226c656173655f657870697265735f6174223a22323032362d31312d31375430333a35383a33342e3830303435395a227d7d', 'scheduled', 0, 0, NULL, NULL, NULL, 1794887913800459, 1794887913800459, 1794887913800459, NULL, NULL, NULL);


--
-- Name: inbox_jobs_seq_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.inbox_jobs_seq_seq', 6, true);


--
-- Name: job_outbox_events_seq_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.job_outbox_events_seq_seq', 1, true);


--
-- Name: euterpe_api_keys euterpe_api_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_api_keys
    ADD CONSTRAINT euterpe_api_keys_pkey PRIMARY KEY (prefix);


--
-- Name: euterpe_ended_attempts euterpe_ended_attempts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_ended_attempts
    ADD CONSTRAINT euterpe_ended_attempts_pkey PRIMARY KEY (job_id, claim_version);


--
-- Name: euterpe_migrations euterpe_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_migrations
    ADD CONSTRAINT euterpe_migrations_pkey PRIMARY KEY (version);


--
-- Name: euterpe_outbox_deliveries euterpe_outbox_deliveries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_outbox_deliveries
    ADD CONSTRAINT euterpe_outbox_deliveries_pkey PRIMARY KEY (event_id, claim_version);


--
-- Name: euterpe_pauses euterpe_pauses_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_pauses
    ADD CONSTRAINT euterpe_pauses_pkey PRIMARY KEY (kind, name);


--
-- Name: euterpe_rate_limits euterpe_rate_limits_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_rate_limits
    ADD CONSTRAINT euterpe_rate_limits_pkey PRIMARY KEY (name);


--
-- Name: euterpe_requesters euterpe_requesters_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_requesters
    ADD CONSTRAINT euterpe_requesters_pkey PRIMARY KEY (id);


--
-- Name: euterpe_tombstones euterpe_tombstones_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_tombstones
    ADD CONSTRAINT euterpe_tombstones_pkey PRIMARY KEY (job_id);


--
-- Name: euterpe_transcode_credentials euterpe_transcode_credentials_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_transcode_credentials
    ADD CONSTRAINT euterpe_transcode_credentials_pkey PRIMARY KEY (job_id);


--
-- Name: euterpe_transcode_uploads euterpe_transcode_uploads_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_transcode_uploads
    ADD CONSTRAINT euterpe_transcode_uploads_pkey PRIMARY KEY (job_id, object_key, upload_id);


--
-- Name: euterpe_unwatched_dependencies euterpe_unwatched_dependencies_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_unwatched_dependencies
    ADD CONSTRAINT euterpe_unwatched_dependencies_pkey PRIMARY KEY (job_id);


--
-- Name: euterpe_webhook_secrets euterpe_webhook_secrets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.euterpe_webhook_secrets
    ADD CONSTRAINT euterpe_webhook_secrets_pkey PRIMARY KEY (id);


--
-- Name: idempotency_keys idempotency_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (scope, key);


--
-- Name: inbox_jobs inbox_jobs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inbox_jobs
    ADD CONSTRAINT inbox_jobs_pkey PRIMARY KEY (id);


--
-- Name: job_dependencies job_dependencies_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.job_dependencies
    ADD CONSTRAINT job_dependencies_pkey PRIMARY KEY (job_id, depends_on);


--
-- Name: job_outbox_events job_outbox_events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.job_outbox_events
    ADD CONSTRAINT job_outbox_events_pkey PRIMARY KEY (id);


--
-- Name: euterpe_tombstones_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX euterpe_tombstones_age ON public.euterpe_tombstones USING btree (pruned_at);


--
-- Name: euterpe_transcode_credentials_held; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX euterpe_transcode_credentials_held ON public.euterpe_transcode_credentials USING btree (job_id) WHERE (storage_creds_encrypted IS NOT NULL);


--
-- Name: euterpe_webhook_secrets_requester; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX euterpe_webhook_secrets_requester ON public.euterpe_webhook_secrets USING btree (requester_id, created_at);


--
-- Name: idempotency_keys_expiry; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idempotency_keys_expiry ON public.idempotency_keys USING btree (expires_at);


--
-- Name: inbox_jobs_claim; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inbox_jobs_claim ON public.inbox_jobs USING btree (queue, priority, seq) WHERE (((state || ''::text) = 'scheduled'::text) AND (NOT parked));


--
-- Name: inbox_jobs_concurrency; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inbox_jobs_concurrency ON public.inbox_jobs USING btree ((((requester_id || chr(31)) || concurrency_key)), state, seq) WHERE (concurrency_key IS NOT NULL);


--
-- Name: inbox_jobs_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inbox_jobs_due ON public.inbox_jobs USING btree (run_at) WHERE (state = ANY (ARRAY['delayed'::text, 'retrying'::text]));


--
-- Name: inbox_jobs_lifetime; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inbox_jobs_lifetime ON public.inbox_jobs USING btree (expires_at) WHERE ((completed_at IS NULL) AND (state <> 'running'::text));


--
-- Name: inbox_jobs_parent; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inbox_jobs_parent ON public.inbox_jobs USING btree (parent_id) WHERE (parent_id IS NOT NULL);


--
-- Name: inbox_jobs_parked; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inbox_jobs_parked ON public.inbox_jobs USING btree ((((requester_id || chr(31)) || concurrency_key)), priority, seq) WHERE parked;


--
-- Name: inbox_jobs_state; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inbox_jobs_state ON public.inbox_jobs USING btree (state, seq);


--
-- Name: job_dependencies_depends_on; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX job_dependencies_depends_on ON public.job_dependencies USING btree (depends_on);


--
-- Name: job_outbox_events_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX job_outbox_events_due ON public.job_outbox_events USING btree (run_at, seq) WHERE (state = ANY (ARRAY['scheduled'::text, 'retrying'::text]));


--
-- Name: job_outbox_events_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX job_outbox_events_order ON public.job_outbox_events USING btree (job_id, sequence) WHERE (state = ANY (ARRAY['scheduled'::text, 'running'::text, 'retrying'::text]));


--
-- Name: job_outbox_events_over; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX job_outbox_events_over ON public.job_outbox_events USING btree (state, completed_at) WHERE (completed_at IS NOT NULL);


--
-- Name: job_outbox_events_state; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX job_outbox_events_state ON public.job_outbox_events USING btree (state, seq);


--
-- Name: job_outbox_events_turns; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX job_outbox_events_turns ON public.job_outbox_events USING btree (requester_id, run_at, seq) WHERE ((state || ''::text) = ANY (ARRAY['scheduled'::text, 'retrying'::text]));


--
-- PostgreSQL database dump complete
--


