"""Errors of `from-model`: a class cannot be imported, or is unfit for an event type. tests/cli has the successes."""

import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from penstock.cli.definitions.model import define_event_type, import_class

MODULE = """
import datetime as dt
from dataclasses import dataclass

from penstock import DataChange

print("This module talks.")


@dataclass
class Order:
    order_id: int
    note: str = ""

    class Inner:
        pass


Change = DataChange[Order]
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory is the user's, and it is as if nothing had been imported."""
    (tmp_path / "shop_of_test").mkdir()
    (tmp_path / "shop_of_test" / "events.py").write_text(MODULE)
    (tmp_path / "broken_for_test.py").write_text("import shop_of_test.gone")
    (tmp_path / "failing_for_test.py").write_text("1 / 0")
    (tmp_path / "leaving_for_test.py").write_text("raise SystemExit(3)")
    (tmp_path / "unfinished_for_test.py").write_text("def (")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [name for name in sys.modules if "of_test" in name]:
        monkeypatch.delitem(sys.modules, name)


def test_class_is_imported_from_the_current_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert import_class("shop_of_test.events:Order").__name__ == "Order"
    assert import_class("shop_of_test.events:Order.Inner").__name__ == "Inner"
    assert capsys.readouterr() == ("", "This module talks.\n")


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("shop_of_test.events", "write it as module:Class"),
        (":Order", "write it as module:Class"),
        ("shop_of_test/events.py:Order", "a module is named as Python imports it, shop_of_test.events:Order"),
        ("shop_of_test.events:order", "shop_of_test.events has no order; did you mean Order?"),
        ("shop_of_test.events:Order.Innen", "shop_of_test.events has no Order.Innen; did you mean Inner?"),
        ("shop_of_test.gone:Order", "there is no module shop_of_test.gone, neither here nor where Python looks"),
        ("gone_of_test.events:Order", "there is no module gone_of_test, neither here nor where Python looks"),
        ("broken_for_test:Order", "the module broken_for_test imports shop_of_test.gone, which is not there"),
        ("failing_for_test:Order", "cannot be imported: ZeroDivisionError: division by zero"),
        ("leaving_for_test:Order", "cannot be imported: SystemExit: 3"),
        ("unfinished_for_test:Order", "cannot be imported: SyntaxError: invalid syntax"),
        (".events:Order", "cannot be imported: TypeError: the 'package' argument is required"),
    ],
    ids=str,
)
def test_class_that_cannot_be_imported_is_named_with_the_reason(named: str, told: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        import_class(named)

    assert str(caught.value).startswith(f"{named}: ")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("named", "traits", "told"),
    [
        ("Order.Inner", {}, "Inner'> has no schema: use a Struct, a dataclass or a pydantic model"),
        ("dt.datetime", {}, "datetime is no object in JSON, which an event has to be"),
        ("dt", {}, "is no class"),
        ("Change", {"category": "business"}, "its category is data, not business"),
        ("Order", {"partition_key_fields": ["id"]}, "has no member 'id'; it has order_id, note"),
    ],
)
def test_class_unfit_for_an_event_type_is_named_with_the_reason(named: str, traits: dict[str, Any], told: str) -> None:
    named = f"shop_of_test.events:{named}"

    with pytest.raises(typer.BadParameter) as caught:
        define_event_type(named, import_class(named), traits)

    assert named in str(caught.value)
    assert told in str(caught.value)


def test_event_type_has_name_and_category_of_the_class_unless_given() -> None:
    order, change = import_class("shop_of_test.events:Order"), import_class("shop_of_test.events:Change")

    made, schema = define_event_type("m:Order", order, {})
    changed, _ = define_event_type("m:Change", change, {"name": "shop.orders"})

    assert (made["name"], made["category"]) == ("order", "undefined")
    assert (changed["name"], changed["category"]) == ("shop.orders", "data")
    assert made["schema"] == changed["schema"]
    assert schema["required"] == ["order_id"]
