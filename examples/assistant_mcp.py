"""An assistant's side of the Model Context Protocol (MCP): list the tools of `ingestor mcp`, then search.

Install 'chroma-ingestor[mcp]', and start `ingestor run` before. The file server.json describes the same
server for registries of MCP servers.

    python assistant_mcp.py config.yaml "How long may I keep a book?"
"""

import asyncio
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

INGESTOR = Path(sys.executable).with_name("ingestor")


async def ask(config: str, question: str) -> None:
    server = StdioServerParameters(command=str(INGESTOR), args=["mcp", "--config", config])
    async with stdio_client(server) as (reader, writer), ClientSession(reader, writer) as session:
        await session.initialize()
        print("tools:", ", ".join(tool.name for tool in (await session.list_tools()).tools))
        found = await session.call_tool("search", {"query": question})
        for part in found.content:
            print(part.text)


if __name__ == "__main__":
    asyncio.run(ask(*sys.argv[1:]))
