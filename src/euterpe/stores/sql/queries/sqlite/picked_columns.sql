LENGTH(payload) + COALESCE(LENGTH(checkpoint), 0) + COALESCE(LENGTH(error), 0) AS size,
           callback_url IS NULL OR callback_events = 'terminal' AS is_quiet, j.id,
           CASE WHEN LENGTH(payload) <= :small THEN hex(payload) END AS small_payload,
           CASE WHEN {{fresh}} AND LENGTH(payload) <= :small THEN {{as_json kind_columns}} END AS kind,
           CASE WHEN concurrency_key IS NOT NULL THEN json_array(j.seq, {{limit_key}}, concurrency_limit) END AS keyed
