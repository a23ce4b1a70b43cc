-- Lock all subscriptions in the order in which transactions lock several; an UPDATE has no order.
SELECT id FROM penstock_subscription ORDER BY id COLLATE "C" FOR UPDATE
