"""The command line with a graph of few links in Chroma, which adds a record in a fraction of the time.

Search may miss some records then, for which no collection is built anew; all else is as it is. For benchmarks
of what is not Chroma's graph.
"""

from ingestor.chroma import backend, reach
from ingestor.cli.main import main

backend.GRAPH = {"max_neighbors": 16, "ef_construction": 48, "ef_search": 200}
reach.OUT_OF_REACH = 1.0

if __name__ == "__main__":
    main()
