"""The page of ``evaluate --html``."""

from ingestor.evaluate.evaluation import Evaluation


def page(found: Evaluation) -> str:
    return found.text
