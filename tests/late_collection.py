"""A pytest plugin for pytest-xdist: a worker collects the tests of a file when it is about to run them.

Without it, each worker collects every test before the first one runs, which takes most of a minute. Workers that take
whole files (`--dist loadfile`) need not know more than the files.
"""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.order import put_slowest_first


class WholeFile(pytest.Item):
    """A file of tests. It stands for them until it is its turn."""

    def __init__(self, *, collector: pytest.Collector, **rest: Any) -> None:
        super().__init__(nodeid=collector.nodeid, **rest)
        self.collector = collector

    def runtest(self) -> None:
        """Be no test: see `LateCollection.pytest_runtest_protocol`."""

    def find_tests(self) -> list[pytest.Item]:
        """Return the tests of the file that are to be run."""
        gc.disable()
        tests = list(self.session.genitems(self.collector))
        self.config.hook.pytest_collection_modifyitems(session=self.session, config=self.config, items=tests)
        gc.enable()
        return tests


class LateCollection:
    """Hooks of a worker."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collect_file(self, parent: pytest.Collector) -> Iterator[list[pytest.Collector | pytest.Item]]:
        """Find no tests in files yet."""
        found = yield
        return [WholeFile.from_parent(parent, name=each.name, path=each.path, collector=each) for each in found]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Leave out no file: options such as `-m` and `-k` choose among its tests."""
        files: list[pytest.Item] = [item for item in items if isinstance(item, WholeFile)]
        items[:] = [item for item in items if not isinstance(item, WholeFile)]
        yield
        put_slowest_first(files)
        items += files

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run the tests of a file."""
        if not isinstance(item, WholeFile):
            return None
        tests = item.find_tests()
        for test, following in zip(tests, [*tests[1:], nextitem], strict=False):
            item._id = test.id  # pytest-xdist wants reports to be of the item that it runs.
            test.ihook.pytest_runtest_protocol(item=test, nextitem=following)
            if item.session.shouldfail or item.session.shouldstop:
                break
        if not tests:  # The file before was left as if one in the folder of this one were the next.
            item.session._setupstate.teardown_exact(nextitem)
        return True


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") and not any("::" in each for each in config.args):
        config.pluginmanager.register(LateCollection())
