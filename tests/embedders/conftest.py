import pytest


@pytest.fixture(scope="session", autouse=True)
def arithmetic() -> None:
    """Before any test here: after the first matrix product of the process it would have no effect."""
    from ingestor.embedders.torch_model import fix_arithmetic

    fix_arithmetic()
