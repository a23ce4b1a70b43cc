-- A request that was heeded in vain is over: whoever wants it again asks again.
INSERT INTO {table}_parked AS penstock_kept (
    processor, digest, stream, tranche, first_index, next_index, events, attempts, tag, detail, since, parked_at
)
VALUES (:processor, :digest, :stream, :tranche, :index, :next, :events, :attempts, :tag, :detail, :since, :now)
ON CONFLICT (processor, digest, tranche) DO UPDATE SET
    first_index = excluded.first_index,
    next_index = excluded.next_index,
    events = excluded.events,
    attempts = excluded.attempts,
    tag = excluded.tag,
    detail = excluded.detail,
    since = excluded.since,
    request = CASE WHEN penstock_kept.attempts = excluded.attempts THEN penstock_kept.request END
