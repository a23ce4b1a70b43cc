-- Record that a subscription reads an event type.
INSERT INTO penstock_subscription_source (subscription, event_type_id) VALUES (?, ?)
