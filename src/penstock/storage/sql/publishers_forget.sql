-- Forget who has not published since :before, except for those whom another transaction records now.
DELETE FROM penstock_publisher
WHERE (event_type, caller) IN (
    SELECT event_type, caller FROM penstock_publisher WHERE seen_at < :before FOR UPDATE SKIP LOCKED
)
