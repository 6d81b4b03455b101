j.indexed_state || ''
