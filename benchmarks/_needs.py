"""What benchmarks need that is not in the repository, and how to get it."""

import os
import subprocess
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parents[1]
CORPORA = ("chatlogs", "state_of_the_union", "wikitexts")
_SOURCE = "https://github.com/brandonstarxel/chunking_evaluation"


class Missing(Exception):
    """A benchmark cannot run here. The message says what is missing and how to get it."""


def evaluation() -> Path:
    """The folder with the questions and corpora of Chroma's report (MIT licence). Raises Missing."""
    named = os.environ.get("INGESTOR_CHUNKING_EVAL")
    places = (
        [Path(named)]
        if named
        else [ROOT / ".cache" / "chunking_eval", ROOT.parent / "shared/data/chunking_eval"]
    )
    for place in places:
        if (place / "questions.csv").is_file():
            return place
    raise Missing(
        f"{places[0]} has no questions.csv. Clone {_SOURCE}, and put from its folder"
        " chunking_evaluation/evaluation_framework/general_evaluation_data into one folder: questions_df.csv"
        f" as questions.csv, and corpora/*.md of {', '.join(CORPORA)}. INGESTOR_CHUNKING_EVAL names that"
        f" folder; else it is {ROOT / '.cache' / 'chunking_eval'}"
    )


def prose() -> Path:
    """A folder of Markdown: the evaluation's corpora, or the sample documents."""
    try:
        return evaluation()
    except Missing:
        return ROOT / "documents"


def need_program(name: str, package: str) -> None:
    """Raises Missing unless there is a program of that name."""
    if which(name) is None:
        raise Missing(f"there is no {name}; on Debian: apt-get install {package}")


def need(there: object, how: str) -> None:
    """Raises Missing with ``how`` to get it unless it is there."""
    if not there:
        raise Missing(how)


def failure(error: subprocess.CalledProcessError) -> str:
    """The last line that a program said."""
    said = error.stderr or error.stdout or b""
    text = said if isinstance(said, str) else said.decode(errors="replace")
    return (text.strip().splitlines() or [str(error)])[-1]
