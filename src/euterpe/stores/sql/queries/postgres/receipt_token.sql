substring(c.token_hashes FROM 1 + 32 * (SELECT CAST(SUM(LEAST(upper(x), j.seq) - lower(x)) AS integer)
                                            FROM unnest(c.ranges) AS x WHERE lower(x) <= j.seq) FOR 32)
