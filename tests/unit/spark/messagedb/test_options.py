import pytest

from penstock.errors import BadParameter
from penstock.spark.messagedb.options import CategoryOptions, end_of, parse_category_options, start_of
from penstock.spark.options import EARLIEST, LATEST

LEAST = {"url": "postgresql://reader:geheim@localhost:1/events", "category": "account"}


def parse_with(**given: str) -> CategoryOptions:
    return parse_category_options(LEAST | given)


def test_url_is_taken_without_line_break_and_driver() -> None:
    written = LEAST["url"].replace("postgresql://", "postgresql+psycopg://") + "\n"

    assert parse_with(url=written) == parse_with()


def test_url_and_category_are_enough() -> None:
    assert parse_with() == CategoryOptions(url=LEAST["url"], categories=("account",))


def test_several_categories_are_separated_by_commas_and_taken_once_each() -> None:
    assert parse_with(category="account, payment,account").categories == ("account", "payment")


def test_all_options_are_read() -> None:
    options = parse_with(
        category="account,payment",
        STARTINGOFFSETS='{"account": {"from": 3, "next": 17}, "payment": -2}',
        endingOffsets='{"account": 20, "payment": -1}',
        maxEventsPerTrigger="1000",
        minPartitions="8",
        schema="events",
        retryTimeout="1.5 seconds",
    )

    assert options.starting_offsets == {"account": 17, "payment": EARLIEST}
    assert options.ending_offsets == {"account": 20, "payment": LATEST}
    assert (options.max_events_per_trigger, options.min_partitions) == (1000, 8)
    assert (options.schema, options.retry_timeout) == ("events", 1.5)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("category", "", "option category is ''; allowed: the name of a category"),
        (
            "category",
            "account-7",
            "option category is 'account-7'; allowed: what stands before the first - of a stream",
        ),
        ("category", "account,,payment", "allowed: the name of a category, or several separated by commas"),
        ("startingOffsets", "soon", "option startingOffsets is 'soon'; allowed: earliest, latest, JSON such as"),
        ("startingOffsets", "[17]", "allowed: earliest, latest, JSON such as"),
        ("startingOffsets", '{"account": "17"}', "allowed: earliest, latest, JSON such as"),
        ("startingOffsets", '{"account": {"next": true}}', "allowed: earliest, latest, JSON such as"),
        ("startingOffsets", '{"payment": 17}', "allowed: categories that category names; payment is none of them"),
        ("endingOffsets", "earliest", "option endingOffsets is 'earliest'; allowed: latest, JSON such as"),
        ("endingOffsets", '{"account": -2}', "allowed: latest, JSON such as"),
        ("maxEventsPerTrigger", "0", "option maxEventsPerTrigger is '0'; allowed: a whole number, 1 or more"),
        ("minPartitions", "many", "option minPartitions is 'many'; allowed: a whole number, 1 or more"),
        ("schema", " ", "option schema is ' '; allowed: the name of the schema in which MessageDB is installed"),
        ("retryTimeout", "long", "option retryTimeout is 'long'; allowed: a duration"),
        ("consumerGroup", "lake", "there is no option 'consumerGroup'"),
    ],
)
def test_messagedb_option_is_refused_with_the_allowed_values(name: str, value: str, said: str) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_with(**{name: value})

    assert said in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://reader:geheim@localhost",
        "host=localhost password=geheim",
        "postgresql://reader:geheim@[::1/events",
        "postgresql://reader:geheim%zz@localhost/events",
        "postgresql://reader@localhost/events?passwort=geheim",
    ],
)
def test_a_wrong_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(BadParameter, match=r"option url is '\(not shown\)'; allowed: the address") as refused:
        parse_with(url=url)

    assert "geheim" not in f"{refused.value} {refused.value.fields} {refused.value.__cause__}"
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_options_do_not_show_a_password() -> None:
    assert "geheim" not in repr(parse_with())


def test_a_batch_does_not_end_before_it_begins() -> None:
    with pytest.raises(BadParameter, match="option endingOffsets is 5; allowed: for 'account', 17 or more"):
        parse_with(startingOffsets='{"account": 17}', endingOffsets='{"account": 5}')
    with pytest.raises(BadParameter, match="which cannot begin at startingOffsets=latest"):
        parse_with(startingOffsets="latest", endingOffsets="latest")


@pytest.mark.parametrize(
    ("asked", "start"),
    [("earliest", 1), ("latest", 100), ('{"account": 17}', 17), ('{"account": -1}', 100), ("{}", 1)],
)
def test_messagedb_query_begins_at_its_starting_offset(asked: str, start: int) -> None:
    assert start_of(parse_with(startingOffsets=asked), "account", 100) == start


@pytest.mark.parametrize(
    ("asked", "end"), [("latest", 100), ('{"account": 17}', 17), ('{"account": 170}', 100), ("{}", 100)]
)
def test_messagedb_batch_ends_at_its_ending_offset_or_the_category_end(asked: str, end: int) -> None:
    assert end_of(parse_with(endingOffsets=asked), "account", 100) == end
