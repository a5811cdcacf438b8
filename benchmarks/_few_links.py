"""The command line with a graph of few links in Chroma, which adds a record in a fraction of the time.

Search may miss some records then; all else is as it is. For benchmarks of what is not Chroma's graph.
"""

from ingestor.chroma import collections
from ingestor.cli.main import main

collections.GRAPH = {"max_neighbors": 16, "ef_construction": 48, "ef_search": 200}

if __name__ == "__main__":
    main()
