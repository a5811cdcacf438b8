"""Metadata of a document from the file beside it, such as ``report.pdf.meta.yaml``."""

import yaml

from ingestor.connectors.shared.typed import scalar, text
from ingestor.model import Scalar

LARGEST = 64 * 1024  # bytes
Values = tuple[tuple[str, Scalar | tuple[str, ...]], ...]


def values_of(data: bytes) -> Values:
    """Return the keys of a YAML or JSON file with their values. Raises ValueError with the reason.

    Lists of texts stay lists. Other values are typed as columns of databases are.
    """
    if len(data) > LARGEST:
        raise ValueError(f"has more than {LARGEST:,} bytes")
    try:
        values = yaml.safe_load(data.decode("utf-8-sig"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"line {line}: {error.problem or 'is no YAML'}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError("is neither YAML nor JSON in UTF-8") from error
    if values is None:
        return ()
    if not isinstance(values, dict):
        raise ValueError("must hold keys and values, such as `team: library`")
    return tuple((text(str(key)), _value(value)) for key, value in values.items() if value not in (None, []))


def _value(value: object) -> Scalar | tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(map(text, value))
    return scalar(value)
