import msgspec

from penstock.client.compatibility import Compatibility


def test_an_answer_with_more_than_is_known_here_is_understood() -> None:
    answer = (
        b'{"compatible":false,"compatibility_mode":"compatible","validated_against_version":"1.2.0","version":"1.2.0",'
        b'"producers":false,"consumers":false,"error":"is no JSON Schema","colour":"red"}'
    )

    found = msgspec.json.decode(answer, type=Compatibility)

    assert (found.compatible, found.error, found.changes) == (False, "is no JSON Schema", [])
