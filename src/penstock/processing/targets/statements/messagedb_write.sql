-- Appends an event to a stream whose last one stands at an expected position: -1 where it has none.
SELECT {schema}.write_message(
    %(id)s, %(stream)s, %(kind)s, %(data)s::jsonb, %(metadata)s::jsonb, %(expected)s::bigint
)
