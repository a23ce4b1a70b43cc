import pytest

from penstock.errors import BadParameter
from penstock.processing.engine.health import Health


@pytest.mark.parametrize("name", ["failing_s_max", "stalled_s_max", "unanswered_s_max"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "60", True], ids=repr)
def test_ages_that_cannot_be_are_refused(name: str, value: object) -> None:
    with pytest.raises(BadParameter, match=rf"health.{name} is {value!r}; allowed: more than 0, or None"):
        Health(**{name: value})  # type: ignore[arg-type]
