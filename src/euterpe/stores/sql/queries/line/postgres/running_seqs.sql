SELECT n.seq FROM euterpe_running AS r, unnest(r.seqs) AS n (seq)
