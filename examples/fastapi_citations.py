"""A web service that searches documents and answers with passages and their citations.

Install chroma-ingestor, fastapi and uvicorn. The service indexes the documents at its start and then every
minute. If `ingestor run` runs already, remove both calls of `sync`: the daemon then indexes and answers.

    INGESTOR_CONFIG=config.yaml uvicorn fastapi_citations:app
    curl "http://127.0.0.1:8000/ask?question=How+long+may+I+keep+a+book"
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from ingestor import BadRequest, IngestorError, Project

EVERY = 60.0  # seconds between two passes
log = logging.getLogger("uvicorn.error")
project = Project(os.environ.get("INGESTOR_CONFIG", "config.yaml"))


class Citation(BaseModel):
    number: int
    text: str
    source: str
    heading: str | None
    lines: tuple[int, int] | None
    page: int | None


@asynccontextmanager
async def life(app: FastAPI) -> AsyncIterator[None]:
    with project:  # searches keep Chroma and the model open
        await asyncio.to_thread(project.sync)
        passes = asyncio.create_task(keep_in_step())
        yield
        passes.cancel()


async def keep_in_step() -> None:
    while True:
        await asyncio.sleep(EVERY)
        try:
            await asyncio.to_thread(project.sync)
        except IngestorError as error:  # the next pass may succeed; meanwhile questions are answered
            log.error("pass failed: %s", error)


app = FastAPI(lifespan=life)


@app.get("/ask")
def ask(question: str, tokens: int = 1500) -> list[Citation]:
    """Return passages for the prompt of a language model, up to a number of tokens."""
    try:
        answer = project.search(question, budget_tokens=tokens, expand="section")
    except BadRequest as error:
        raise HTTPException(422, str(error)) from error
    except IngestorError as error:
        raise HTTPException(503, str(error)) from error
    return [
        Citation(
            number=number,
            text=passage.text,
            source=passage.source,
            heading=passage.heading_path,
            lines=passage.lines,
            page=None if passage.page is None else passage.page + 1,
        )
        for number, passage in enumerate(answer.passages, 1)
    ]
