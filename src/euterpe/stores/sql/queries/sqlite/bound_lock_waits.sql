-- The single writer waits for nobody's rows.
SELECT :wait_ms
