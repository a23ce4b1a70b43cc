import pytest

from penstock.errors import BadParameter
from penstock.spark.nakadi.options import Definition, SubscriptionOptions, parse_subscription_options

LEAST = {"url": "http://nakadi:8080/", "subscription": "5b6f9a3c", "landingLocation": "/var/landing"}
DEFINED = {
    "url": "http://nakadi:8080",
    "owningApplication": "lake",
    "eventType": "a.b,c.d",
    "landingLocation": "s3://x",
}


def parse_with(**given: str) -> SubscriptionOptions:
    return parse_subscription_options(LEAST | given)


def test_url_subscription_and_location_are_enough() -> None:
    assert parse_with() == SubscriptionOptions(
        url="http://nakadi:8080", subscription="5b6f9a3c", landing_location="/var/landing"
    )


def test_all_options_are_read() -> None:
    options = parse_with(
        MAXEVENTSPERTRIGGER="1000",
        batchLimit="50",
        commitTimeout="30 seconds",
        tokenFile="/run/token",
        failOnDataLoss="false",
        retryTimeout="1.5 seconds",
    )

    assert (options.max_events_per_trigger, options.batch_limit, options.commit_timeout) == (1000, 50, 30)
    assert (options.authorization_file, options.fail_on_data_loss, options.retry_timeout) == ("/run/token", False, 1.5)


def test_subscription_may_be_defined_by_owner_event_types_and_group() -> None:
    options = parse_subscription_options(DEFINED | {"consumerGroup": "x", "readFrom": "end"})

    assert isinstance(options.subscription, Definition)
    assert options.subscription.members() == {
        "owning_application": "lake",
        "event_types": ["a.b", "c.d"],
        "consumer_group": "x",
        "read_from": "end",
    }
    assert parse_subscription_options(DEFINED).subscription == Definition(
        owning_application="lake", event_types=("a.b", "c.d"), consumer_group="default", read_from="begin"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (LEAST | {"url": "nakadi"}, "option url is 'nakadi'; allowed: the address of a Nakadi server, such as"),
        (LEAST | {"subscription": " "}, "option subscription is ' '; allowed: the id of a subscription; or owning"),
        (LEAST | {"subscription": "a/b"}, "option subscription is 'a/b'"),
        (LEAST | {"eventType": "a.b"}, "option eventType is 'a.b'; allowed: without subscription"),
        (LEAST | {"landingLocation": ""}, "option landingLocation is ''; allowed: a directory that the driver and all"),
        (LEAST | {"landingLocation": "landing"}, "option landingLocation is 'landing'; .* a whole path"),
        (LEAST | {"maxEventsPerTrigger": "0"}, "option maxEventsPerTrigger is '0'; allowed: a whole number"),
        (LEAST | {"batchLimit": "many"}, "option batchLimit is 'many'; allowed: a whole number"),
        (LEAST | {"maxEventsPerTrigger": "10"}, "option batchLimit is 500; allowed: up to 10, which is maxEventsPer"),
        (LEAST | {"commitTimeout": "0"}, "option commitTimeout is '0'; allowed: whole seconds, 1 or more"),
        (LEAST | {"failOnDataLoss": "perhaps"}, "option failOnDataLoss is 'perhaps'; allowed: true or false"),
        (LEAST | {"tokenFile": ""}, "option tokenFile is ''; allowed: a file that can be read, with a token"),
        (LEAST | {"retryTimeout": "long"}, "option retryTimeout is 'long'; allowed: a duration"),
        (LEAST | {"startingOffsets": "latest"}, "there is no option 'startingOffsets'"),
        (DEFINED | {"readFrom": "cursors"}, "option readFrom is 'cursors'; allowed: begin, end"),
        (DEFINED | {"eventType": "a.b,,c"}, "option eventType is 'a.b,,c'; allowed: the name of an event type"),
        (DEFINED | {"owningApplication": ""}, "option owningApplication is ''; allowed: the application that owns"),
        (DEFINED | {"consumerGroup": ""}, "option consumerGroup is ''"),
    ],
)
def test_nakadi_option_is_refused_with_the_allowed_values(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        parse_subscription_options(given)


@pytest.mark.parametrize("location", ["/var/landing", "file:/var/landing", "s3a://lake/landing"])
def test_a_location_is_a_whole_path_or_has_a_scheme(location: str) -> None:
    assert parse_with(landingLocation=location).landing_location == location
