"""The sample documents in a project, and a language model that follows a script."""

import shutil
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import project as project
from tests.e2e.in_process import ask as ask
from tests.e2e.project import Project
from tests.e2e.test_looking import SAMPLES
from tests.endpoint import Endpoint, serving
from tests.evaluate.scripted_model import model, set_language_model


@pytest.fixture
def samples(project: Project) -> Project:
    """Some of the sample documents, nothing of them indexed."""
    for name in ("cooperative", "growing", "kitchen"):
        shutil.copytree(SAMPLES / name, project.docs / name)
    return project


@pytest.fixture
def settled(project: Project) -> Project:
    """No documents, and none that is too young to be read."""
    project.source = {"settle": "0s"}
    project.configure()
    return project


@pytest.fixture
def endpoint(samples: Project) -> Iterator[Endpoint]:
    """The scripted model, which the config of ``samples`` names."""
    with serving(model) as found:
        set_language_model(samples, found.base_url)
        yield found
