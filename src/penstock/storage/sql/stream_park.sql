-- Park a stream of a group, or put what is parked of it now. A request that was heeded in vain is over.
INSERT INTO penstock_parked_stream
    ("group", source, tranche, digest, stream, first_index, next_index, events, attempts, tag, detail, since, parked_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT ("group", source, tranche, digest) DO UPDATE SET
    first_index = excluded.first_index, next_index = excluded.next_index, events = excluded.events,
    attempts = excluded.attempts, tag = excluded.tag, detail = excluded.detail, since = excluded.since,
    request = CASE WHEN penstock_parked_stream.attempts = excluded.attempts THEN penstock_parked_stream.request END
