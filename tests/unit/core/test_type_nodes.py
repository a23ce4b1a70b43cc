from dataclasses import dataclass

import msgspec
import pytest

from penstock.core.type_nodes import type_nodes


class Leaf(msgspec.Struct):
    n: int


@dataclass
class Tree:
    leaves: dict[str, list[Leaf]]
    below: "Tree | None" = None


def test_each_type_is_named_once_even_where_it_holds_itself() -> None:
    found = [node.cls for node in type_nodes(Tree) if hasattr(node, "cls")]

    assert found == [Tree, Leaf]


def test_what_is_no_type_is_refused() -> None:
    with pytest.raises(TypeError, match="5"):
        list(type_nodes(5))
