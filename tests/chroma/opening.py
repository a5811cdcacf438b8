"""Opens collections as the program does."""

from itertools import count

from ingestor.chroma.collections import open_collection
from tests.chroma.laws import DIMENSIONS

_serial = count()


def opened(client, name=None, *, model=None, dimensions=DIMENSIONS, owner="ours"):
    name = name or f"collection-{next(_serial)}"
    return open_collection(client, name, model=model, dimensions=dimensions, owner=owner)
