from penstock.cli.definition.document import Document, FileLine, Unreadable


def test_place_of_a_missing_member_is_that_of_its_parent() -> None:
    document = Document("a.yaml", {}, {(): 3, ("b",): 5, ("b", "c"): 7})

    assert document.place(("b", "c")) == FileLine("a.yaml", 7)
    assert document.place(("b", "d", "e")) == FileLine("a.yaml", 5)
    assert document.place(("d",)) == FileLine("a.yaml", 3)


def test_unreadable_names_file_and_line() -> None:
    assert str(Unreadable(FileLine("a/b.yaml", 12), "it is empty")) == "a/b.yaml:12: it is empty"
