-- Keep away whoever moves a subscription, in the order in which several are locked: an UPDATE has none of its own.
SELECT id FROM penstock_subscription ORDER BY id COLLATE "C" FOR UPDATE
