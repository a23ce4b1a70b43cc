-- Tells the category of the event type of this name; relies on the unique index of names.
SELECT category FROM penstock_event_type WHERE name = :event_type
