j.callback_url IS NOT NULL AND j.callback_events <> 'terminal'
