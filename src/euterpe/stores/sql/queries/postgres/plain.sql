(w.callback_url IS NULL OR w.callback_events = 'terminal') AND w.concurrency_key IS NULL
