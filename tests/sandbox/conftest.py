from collections.abc import Iterator

import pytest

from tests.bad_parser import installed


@pytest.fixture(scope="module")
def bad_parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", installed(tmp_path_factory.mktemp("plugins")))
        yield
