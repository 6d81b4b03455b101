CAST(j.id AS TEXT), j.state, j.has_dependents, j.callback_url IS NOT NULL, j.callback_events, {{limit_key}}
