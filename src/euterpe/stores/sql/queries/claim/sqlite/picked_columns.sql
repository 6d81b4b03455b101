LENGTH(payload) + COALESCE(LENGTH(checkpoint), 0) + COALESCE(LENGTH(error), 0) AS size,
           callback_url IS NULL OR callback_events = 'terminal' AS is_quiet, j.id,
           CASE WHEN LENGTH(payload) <= :small THEN hex(payload) END AS small_payload,
           CASE WHEN {{fresh}} AND LENGTH(payload) <= :small THEN {{as_json kind_columns}} END AS kind,
           CASE WHEN l.name <> '' THEN json_array(j.seq, l.name, j.concurrency_limit, l.running, l.tokens) END AS keyed
