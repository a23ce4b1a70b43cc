-- Select what is parked of the streams that a key of an event type is, or whose failures name it: group, id, partition, the
-- index behind the last event, and whether the stream is that of the key. Feeds name streams so: see `stream_name`.
SELECT "group", id, tranche, next_index,
       stream IN (CAST(:event_type AS TEXT) || '-' || CAST(:key AS TEXT),
                  CAST(:event_type AS TEXT) || '-' || CAST(tranche AS TEXT) || '_' || CAST(:key AS TEXT))
FROM penstock_parked_stream
WHERE source = :event_type
  AND (stream IN (CAST(:event_type AS TEXT) || '-' || CAST(:key AS TEXT),
                  CAST(:event_type AS TEXT) || '-' || CAST(tranche AS TEXT) || '_' || CAST(:key AS TEXT))
       OR replace(detail, CAST(:key AS TEXT), '') <> detail)
ORDER BY "group", id
