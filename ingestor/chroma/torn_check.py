"""Whether a collection's files crash Chroma. Checked before a collection is deleted for that."""

from ingestor.chroma.client import connect
from ingestor.chroma.collections import Ownership, find_collection
from ingestor.chroma.reach import probe
from ingestor.chroma.server import ChromaServer, free_port
from ingestor.core.entries import ChromaName
from ingestor.ports import Transient

LOCAL = "127.0.0.1"


def crashes_chroma(server: ChromaServer, name: ChromaName, owner: Ownership) -> bool:
    """Ask a private server, so that no other request can be the cause of a crash.

    ``server`` is stopped, and stays stopped. The collection is read and searched, and one of its records is
    written again. Raises Torn if Chroma reports that the collection is damaged.
    """
    server.stop()
    alone = ChromaServer(server.path, LOCAL, free_port(LOCAL), server.log_path)
    with alone, connect(LOCAL, alone.port, token=alone.secret) as client:
        try:
            index = find_collection(client, name, owner=owner)
            if index is not None:
                probe(index)
                index.upsert(index.sample(0, 1))
                probe(index)
        except Transient:
            return alone.poll() is not None and alone.crashed
    return False
