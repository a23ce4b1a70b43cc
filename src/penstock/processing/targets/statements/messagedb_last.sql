-- Returns the position of the last event of a stream, and the index of the last one that came from a stream of
-- elsewhere, of those with one numbering; null where there is none.
SELECT
    (SELECT max(position) FROM {schema}.messages WHERE stream_name = %(stream)s),
    (
        SELECT (metadata ->> 'penstock-index')::bigint
        FROM {schema}.messages
        WHERE
            stream_name = %(stream)s
            AND metadata ->> 'penstock-stream' = %(origin)s
            AND coalesce(metadata ->> 'penstock-numbering', '') = %(numbering)s
        ORDER BY position DESC
        LIMIT 1
    )
