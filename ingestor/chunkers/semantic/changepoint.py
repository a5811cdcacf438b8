"""Chunks of least scatter inside, with ``target`` tokens on average (segmentation/changepoint.py).

The text is cut into pieces of at most 50 tokens (fewer for small targets), and these are put together into
chunks of at most 2.5 times the target. What belongs to the text after it (see ingestor/text/bonds.py) is cut
off only where it does not fit, and cuts are preferred where a section begins. In documents with headings a
cut costs less before a heading and between blocks, and more inside lists, tables and code, and pooled vectors
take nothing from neighbours in another section (``structure``; see chunkers/semantic/borders.py). With
``structure: 0`` all is as in versions before that option, also the recipe.

``penalty: auto`` finds the price of a chunk at which the mean chunk has the target size: the mean over the
collection, or over each document by itself (``scope``). A number fixes the price instead, and no document
depends on others. Chunk vectors are pooled unless ``vectors: encoded``.

The collection's price moves as documents come and go, and then those are cut again whose cuts it changes.
``drift`` lets it move by that share more, in steps of 4.4 % and one at least, before a document is cut again.
"""

from typing import TYPE_CHECKING

from ingestor.chunkers.semantic.changepoint_options import VERSION, ChangepointOptions
from ingestor.registry import Plugin

if TYPE_CHECKING:
    from ingestor.chunkers.semantic.least_scatter import Changepoint
    from ingestor.text.tokens import Tokens


def build(options: ChangepointOptions, tokens: "Tokens") -> "Changepoint":
    from ingestor.chunkers.semantic.least_scatter import Changepoint, CollectiveChangepoint

    return (CollectiveChangepoint if options.collective else Changepoint)(options, tokens)


PLUGIN = Plugin(kind="changepoint", version=VERSION, options=ChangepointOptions, build=build)
