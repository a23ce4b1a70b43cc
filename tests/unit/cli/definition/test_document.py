from penstock.cli.definition.document import Document, Place, Unreadable


def test_what_is_not_there_stands_in_what_is() -> None:
    document = Document("a.yaml", {}, {(): 3, ("b",): 5, ("b", "c"): 7})

    assert document.place(("b", "c")) == Place("a.yaml", 7)
    assert document.place(("b", "d", "e")) == Place("a.yaml", 5)
    assert document.place(("d",)) == Place("a.yaml", 3)


def test_what_cannot_be_read_says_where() -> None:
    assert str(Unreadable(Place("a/b.yaml", 12), "it is empty")) == "a/b.yaml:12: it is empty"
