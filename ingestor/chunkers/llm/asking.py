"""Common options of strategies that ask a language model.

A question holds only the text concerned, and answers are cached (pipeline/answers.py). So unchanged text is
not asked about again, and an interrupted document continues where it was. Invalid answers are cached too
(llm/valid.py), so that a document is always chunked the same way.
"""

from ingestor.chunkers.options import ChunkerOptions
from ingestor.llm.options import Endpoint


class AskingOptions(ChunkerOptions, Endpoint):
    """Options of chunkers that ask a language model."""
