"""Data and programs that benchmarks need besides the repository, with instructions to get them."""

import os
import subprocess
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parents[1]
CORPORA = ("chatlogs", "state_of_the_union", "wikitexts")
KEPT = Path(os.environ.get("INGESTOR_BENCHMARKS") or Path.home() / ".cache" / "ingestor-benchmarks")
_SOURCE = "https://github.com/brandonstarxel/chunking_evaluation"


class Missing(Exception):
    """Error: a benchmark cannot run here. The message names what is missing and how to get it."""


def evaluation() -> Path:
    """Return the folder with the questions and corpora of Chroma's report (MIT licence). Raises Missing."""
    place = Path(os.environ.get("INGESTOR_CHUNKING_EVAL") or ROOT / ".cache" / "chunking_eval")
    if not (place / "questions.csv").is_file():
        raise Missing(
            f"{place} has no questions.csv. Clone {_SOURCE}, and copy from its folder"
            " chunking_evaluation/evaluation_framework/general_evaluation_data the file questions_df.csv, as"
            f" questions.csv, and corpora/*.md of {', '.join(CORPORA)}; CONTRIBUTING.md, Benchmarks, has the"
            " commands. INGESTOR_CHUNKING_EVAL can name another folder"
        )
    return place


def prose() -> Path:
    """Return a folder of Markdown: the evaluation's corpora, or the sample documents."""
    try:
        return evaluation()
    except Missing:
        return ROOT / "documents"


def need_program(name: str, package: str) -> None:
    """Raise Missing if no program has that name."""
    if which(name) is None:
        raise Missing(f"there is no {name}; on Debian: apt-get install {package}")


def need(there: object, how: str) -> None:
    """Raise Missing with ``how`` to get it, unless ``there``."""
    if not there:
        raise Missing(how)


def failure(error: subprocess.CalledProcessError) -> str:
    """Return the last line of a program's output."""
    output = error.stderr or error.stdout or b""
    text = output if isinstance(output, str) else output.decode(errors="replace")
    return (text.strip().splitlines() or [str(error)])[-1]
