from penstock.processing.categories import Category, categories


def test_the_tranches_of_an_event_type_are_one_category_and_others_none() -> None:
    ingested = {"order.placed/0": 3, "order.placed/11": 4, "order/late/2": 5, "0": 6, "in/2026.ndjson": 7}
    completed = {"order.placed/0": 3, "order.placed/11": 1, "0": 6}

    found = categories(ingested, completed)

    assert found == {"order.placed": Category(7, 4), "order/late": Category(5, 0)}
