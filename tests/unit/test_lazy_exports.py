import sys
from types import ModuleType

import pytest

import penstock.client
import penstock.core.log.cursor
import penstock.processing
from penstock.lazy_exports import export_lazily


@pytest.mark.parametrize(
    "package", [penstock, penstock.client, penstock.processing], ids=lambda package: package.__name__
)
def test_each_public_name_is_found_where_it_is_at_home(package: ModuleType) -> None:
    assert package.__all__
    for name in package.__all__:
        assert getattr(package, name) is vars(package)[name], "it is looked up once"


def test_a_module_is_loaded_when_its_name_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("penstock.some")
    monkeypatch.setitem(sys.modules, "penstock.some", package)

    load, names = export_lazily("penstock.some", {"core.log.cursor": ["FIRST", "LAST"]})

    assert load("FIRST") is penstock.core.log.cursor.FIRST
    assert vars(package)["FIRST"] is penstock.core.log.cursor.FIRST
    assert "LAST" not in vars(package)
    assert {"FIRST", "LAST"} <= {*names()}, "they are offered, whether they are loaded or not"


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match=r"'penstock\.client' has no attribute 'Nobody'"):
        penstock.client.Nobody  # noqa: B018
