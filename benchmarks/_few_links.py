"""The command line with few links in Chroma's graph, which then adds a record in a fraction of the time.

Search may miss some records then, and no collection is rebuilt for that. For benchmarks of everything except
Chroma's graph.
"""

from ingestor.chroma import index, settings
from ingestor.cli.main import main

settings.GRAPH = {"max_neighbors": 16, "ef_construction": 48, "ef_search": 200}
index.OUT_OF_REACH = 1.0

if __name__ == "__main__":
    main()
