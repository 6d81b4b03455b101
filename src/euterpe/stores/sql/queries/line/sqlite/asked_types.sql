SELECT a.type FROM (
            SELECT value AS type FROM json_each(:types)
            UNION ALL
            SELECT w.type FROM ({{types_of_queue}}) AS w WHERE :types IS NULL AND w.type <> 'transcode'
        ) AS a WHERE {{unpaused}}
