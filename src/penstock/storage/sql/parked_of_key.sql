-- Select the parked keys of all subscriptions that are a key of an event type.
SELECT subscription, id, "partition" FROM penstock_parked WHERE event_type = :event_type AND key = :key
ORDER BY subscription, id
