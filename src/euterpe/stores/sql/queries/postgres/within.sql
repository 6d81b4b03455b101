w.indexed_state = 'completed' AND w.seq >= lower(x) AND w.seq < upper(x)
