"""The OpenAPI description is made from the routing table."""

import json
import re

from penstock.server.openapi import describe
from penstock.server.routes import ROUTES

DOCUMENT = describe(ROUTES, "1.2.3", "/events")


def test_description_is_json_with_version_and_server() -> None:
    document = json.loads(json.dumps(DOCUMENT))
    assert (document["openapi"], document["info"]["version"]) == ("3.1.0", "1.2.3")
    assert document["servers"] == [{"url": "/events"}]
    assert describe(ROUTES, "1")["servers"] == [{"url": "/"}]


def test_every_route_is_described_once_with_a_summary_and_responses() -> None:
    described = {
        (method.upper(), path): each for path, methods in DOCUMENT["paths"].items() for method, each in methods.items()
    }
    assert described.keys() == {(each.method, each.path) for each in ROUTES}
    for operation in described.values():
        assert operation["summary"][0].isupper()
        assert {"default"} < set(operation["responses"])
    assert len({each["operationId"] for each in described.values()}) == len(described)


def test_every_path_parameter_is_described() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            in_path = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
            assert in_path == re.findall(r"{(\w+)}", path)


def test_every_reference_resolves() -> None:
    for reference in set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(DOCUMENT))):
        found = DOCUMENT
        for step in reference.split("/"):
            found = found[step]
        assert found


def test_docstring_of_every_handler_names_its_route() -> None:
    for operation in ROUTES:
        said = (operation.handler.__doc__ or "").splitlines()[0]
        assert said.startswith(f"{operation.method} {operation.path}: ")


def test_security_is_described_by_the_methods_of_authentication() -> None:
    document = describe(ROUTES, "1", methods=["token", "jwt", "certificate"])

    assert document["security"] == [{"bearer": []}, {"certificate": []}]
    schemes = document["components"]["securitySchemes"]
    assert {name: scheme["type"] for name, scheme in schemes.items()} == {"bearer": "http", "certificate": "mutualTLS"}
    open_to_all = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
        if described.get("security") == []
    }
    assert open_to_all == {(each.method, each.path) for each in ROUTES if each.needs is None}


def test_proxy_that_authenticates_needs_nothing_of_the_request_itself() -> None:
    assert describe(ROUTES, "1", methods=["token", "proxy"])["security"] == [{"bearer": []}, {}]
    assert "security" not in describe(ROUTES, "1", methods=["proxy"])
    assert "security" not in DOCUMENT
