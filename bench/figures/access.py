"""What it costs that a hub knows its callers, and what one of them leaves to another."""

import json
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.feed_read import rate_of
from bench.figures.publish import PUBLISHERS
from bench.load.program import Program
from bench.logs import make_feed, make_log
from bench.measure import Side, in_turn
from bench.place import Place
from penstock.core.access import Caller
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.live_hub import live_hub

PAGE = 1000
TARGET = Target(">=", 0.95)
JWT_TARGET = Target(">=", 0.90)
FAIR_TARGET = Target(">=", 0.5)
_CALLER_CONNECTIONS = 8
_LARGE_BATCH = 20_000
_LISTED = [{"data_type": "service", "value": name} for name in ("bench", "other", "another")]
_ISSUER, _AUDIENCE = "https://login.example", "penstock"
_JWT_OPTIONS = ["--jwt-issuer", _ISSUER, "--jwt-audience", _AUDIENCE]
_LIMITS = ["--limit", "requests=1000000"]
"""So high that it stops nobody."""


@figure("access", "publishing")
def access(place: Place, scale: Scale) -> Iterable[Row]:
    """A hub that asks for tokens, beside one with the same limits of use that asks nobody."""
    given: dict[str, Any] = {"feed": FEED, "connections": PUBLISHERS}
    yield from _compare(place, scale, "32 publishers of single events", "bench.load.publish_single", given, events=0)
    given = {"feed": FEED, "form": "v1", "page": PAGE, "events": scale.events, "first": "_first"}
    yield from _compare(place, scale, "pages of 1000", "bench.load.read", given, events=scale.events)


@figure("fairness", "publishing")
def fairness(place: Place, scale: Scale) -> Iterable[Row]:
    """A modest caller, with eight publishers of single events, beside a greedy one with eight connections."""
    url, page = place.sqlite(), scale.page
    make_log(url, scale.events)
    greedy = {
        "publishes batches of 1000": ("batches", 1000),
        f"publishes batches of {_LARGE_BATCH}": ("batches", _LARGE_BATCH),
        "reads pages of 1000": ("pages", 1000),
        f"reads pages of {page}": ("pages", page),
    }
    with ExitStack() as stack:
        given = {"feed": FEED, "connections": _CALLER_CONNECTIONS}
        options = ["--auth", "token", "--limit", "requests=100000"]
        modest_token, greedy_token = (_list_callers(url, name) for name in ("bench", "other"))
        given["port"] = stack.enter_context(live_hub(url, log=place.log, options=options)).port
        modest = stack.enter_context(Program("bench.load.publish_single", **given, token=modest_token))
        sides = {"alone": rate_of(modest, scale)}
        for what, (kind, events) in greedy.items():
            other = Program("bench.load.greedy", **given, kind=kind, events=events, token=greedy_token)
            sides[what] = _rate_beside(modest, stack.enter_context(other), scale)
        rounds = in_turn(sides, scale.rounds)
    place.drop(url)
    alone = rate(rounds.median("alone"))
    for what in greedy:
        ours = rate(rounds.median(what))
        yield Row(f"beside a caller that {what}, and alone", ours, alone, rounds.ratio(what, "alone"), FAIR_TARGET)


def _rate_beside(modest: Program, greedy: Program, scale: Scale) -> Side:
    """Return the side that is the rate of the *modest* caller, while the *greedy* one is at work before and after."""

    def measure() -> float:
        greedy.start(seconds=2 * scale.seconds)
        time.sleep(scale.seconds / 2)
        found = float(modest(seconds=scale.seconds)["rate"])
        greedy.result()
        return found

    return measure


def _compare(
    place: Place, scale: Scale, what: str, program: str, given: dict[str, Any], *, events: int
) -> Iterable[Row]:
    urls = {side: place.sqlite() for side in ("token", "jwt", "open", "unlimited")}
    for url in urls.values():
        if events:
            make_log(url, events)
        else:
            make_feed(url)
    tokens = {side: _list_callers(url) for side, url in urls.items()}
    with ExitStack() as stack:
        keys = Path(stack.enter_context(TemporaryDirectory())) / "keys.json"
        tokens["jwt"] = _sign_token(keys)
        options = {
            "token": [*_LIMITS, "--auth", "token"],
            "jwt": [*_LIMITS, "--auth", "jwt", *_JWT_OPTIONS, "--jwt-keys", str(keys)],
            "open": _LIMITS,
            "unlimited": [],
        }
        rates = {}
        for side, url in urls.items():
            hub = stack.enter_context(live_hub(url, log=place.log, options=options[side]))
            client = Program(
                program, port=hub.port, **given, **({"token": tokens[side]} if side in ("token", "jwt") else {})
            )
            rates[side] = rate_of(stack.enter_context(client), scale)
        rounds = in_turn(rates, scale.rounds)
    for url in urls.values():
        place.drop(url)
    for side, beside, name, target in (
        ("token", "open", "a token", TARGET),
        ("jwt", "open", "a JSON Web Token", JWT_TARGET),
        ("open", "unlimited", "limits of use, nobody asked,", None),
    ):
        ours, others = (rate(rounds.median(each)) for each in (side, beside))
        yield Row(f"{what}: with {name} beside without", ours, others, rounds.ratio(side, beside), target)


def _sign_token(keys: Path) -> str:
    """Write the key set of an issuer, and return a token of the caller who is on the feed's lists."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = ECAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"use": "sig", "kid": "bench"}
    public.pop("key_ops", None)
    keys.write_text(json.dumps({"keys": [public]}), encoding="utf-8")
    now = int(time.time())
    claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "bench", "iat": now, "exp": now + 7 * 24 * 3600}
    return jwt.encode(claims, key, "ES256", headers={"kid": "bench"})


def _list_callers(url: str, name: str = "bench") -> str:
    """Give the feed lists, and return a token of *name*, who is on them."""
    store = open_store(url)
    try:
        hub = Hub(store)
        lists = dict.fromkeys(("admins", "readers", "writers"), _LISTED)
        hub.registry.replace(FEED, hub.registry.load(FEED).event_type.definition | {"authorization": lists})
        return hub.admin.tokens.create(Caller("service", name)).secret
    finally:
        store.close()
