"""Opens collections as the program does."""

from itertools import count

from ingestor.chroma.collections import Ownership, open_collection
from tests.chroma.laws import DIMENSIONS

_serial = count()
OURS = Ownership("ours")


def opened(client, name=None, *, model=None, dimensions=DIMENSIONS, owner=OURS):
    name = name or f"collection-{next(_serial)}"
    return open_collection(client, name, model=model, dimensions=dimensions, owner=owner)
