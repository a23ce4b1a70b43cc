-- Insert or replace the owner and the state of a partition of a subscription.
INSERT INTO penstock_slot (subscription, event_type, "partition", owner, successor, sent, failed, single_until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (subscription, event_type, "partition")
DO UPDATE SET owner = excluded.owner, successor = excluded.successor, sent = excluded.sent, failed = excluded.failed,
              single_until = excluded.single_until
