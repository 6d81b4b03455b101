{{indexed_state}} || '' = 'scheduled' AND NOT parked AND {{unpaused}}
