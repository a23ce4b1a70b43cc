-- Insert a stored batch of a producer.
INSERT INTO penstock_produced (producer_id, epoch, number, events, "offset", appended_at, digests)
VALUES (?, ?, ?, ?, ?, ?, ?)
