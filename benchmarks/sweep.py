"""Parse every file of a folder in the confined process and cut it: crashes, refusals, lost text, time.

``python -m benchmarks sweep FOLDER``: one line for each kind of file, then each finding with its path. Test
files of other parsers are suitable, such as the source distributions of python-docx, python-pptx and odfpy
(``pip download --no-deps --no-binary :all: NAME``). Exits with 1 if a parser crashed or ran out of time, or
if a cut lost or changed text.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks._needs import need
from ingestor.app.parts import parser
from ingestor.config.models import Choice
from ingestor.model import Blob, Chunk, Document
from ingestor.parsers.shared import detect
from ingestor.ports import BadDocument, Transient, Unsupported
from ingestor.registry import Group, find
from ingestor.sandbox.pool import Defect, Isolation, TookTooLong
from ingestor.sandbox.process import Limits
from ingestor.text.tokens import Tokens

_STRATEGIES = ("recursive", "structure", "sentence")  # they need no model
_CRASHED = "the parser crashed"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result for a file. ``state``: read, empty, incomplete, refused, unsupported, or a fault."""

    state: str
    reason: str = ""
    characters: int = 0
    seconds: float = 0.0


Cutter = tuple[str, Callable[[Document], tuple[Chunk, ...]]]
FAULTS = ("crashed", "out of time", "defect", "cut wrongly")


def main(folder: str = "documents") -> None:
    top = Path(folder)
    need(top.is_dir(), f"there is no folder {folder}")
    cutters = tuple(_cutters())
    findings: dict[Path, Finding] = {}
    with closing(Isolation(Limits(processes=1))) as isolation:
        for path in sorted(each for each in top.rglob("*") if each.is_file() and not each.is_symlink()):
            began = time.perf_counter()
            finding = sweep(path, isolation, cutters)
            findings[path] = Finding(
                finding.state, finding.reason, finding.characters, time.perf_counter() - began
            )
    _print(top, findings)
    if any(finding.state in FAULTS for finding in findings.values()):
        sys.exit(1)


def sweep(path: Path, isolation: Isolation, cutters: tuple[Cutter, ...]) -> Finding:
    """Parse a file as a source would, and cut it by each strategy."""
    blob = Blob(path.read_bytes(), path.name)
    try:
        document = parser(_default("parsers", detect.parser_of(blob)), isolation).parse(blob)
    except Unsupported as error:
        return Finding("unsupported", str(error))
    except TookTooLong as error:
        return Finding("out of time", str(error))
    except BadDocument as error:
        return Finding("crashed" if _CRASHED in str(error) else "refused", str(error))
    except (Defect, Transient) as error:
        return Finding("defect", f"{type(error).__name__}: {error}")
    for name, cut in cutters:
        if wrong := mistake(document.text, cut(document)):
            return Finding("cut wrongly", f"{name}: {wrong}", len(document.text))
    if document.lost:
        return Finding("incomplete", "; ".join(document.lost), len(document.text))
    return Finding("read" if document.text.strip() else "empty", "", len(document.text))


def mistake(text: str, chunks: tuple[Chunk, ...]) -> str:
    """Return the first law that a cut breaks, in words; "" if it breaks none."""
    covered = bytearray(len(text))
    for before, chunk in zip((None, *chunks), chunks, strict=False):
        if not 0 <= chunk.start < chunk.end <= len(text):
            return f"a span {chunk.start}:{chunk.end} of {len(text)} characters"
        if before is not None and chunk.start < before.start:
            return f"the chunk at {chunk.start} stands behind the one at {before.start}"
        if text[chunk.start : chunk.end] != chunk.text:
            return f"the chunk at {chunk.start} holds another text than the document"
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    lost = (at for at, each in enumerate(text) if not covered[at] and not each.isspace())
    at = next(lost, None)
    return "" if at is None else f"{text[at : at + 20]!r} at {at} is in no chunk"


def _cutters() -> Iterator[Cutter]:
    tokens = Tokens()

    def no_model(texts: object) -> object:
        raise AssertionError("these strategies embed nothing")

    for name in _STRATEGIES:
        choice = _default("chunkers", name)
        chunker = choice.plugin.build(choice.options, tokens)
        yield name, lambda document, chunker=chunker: chunker.chunk(document, no_model, None).chunks  # type: ignore[misc]


def _default(group: Group, kind: str) -> Choice:
    plugin = find(group, kind)
    return Choice(plugin, plugin.options())


def _print(top: Path, findings: dict[Path, Finding]) -> None:
    kinds: dict[str, list[Finding]] = defaultdict(list)
    for path, finding in findings.items():
        kinds[path.suffix.lower() or "(no suffix)"].append(finding)
    print(f"{'kind':14} files    read  empty  incomplete  refused  unsupported  faults  slowest")
    for kind, of in sorted(kinds.items(), key=lambda item: -len(item[1])):
        count = Counter(finding.state for finding in of)
        faults = sum(count[state] for state in FAULTS)
        print(
            f"{kind[:14]:14} {len(of):5} {count['read']:7} {count['empty']:6} {count['incomplete']:11}"
            f" {count['refused']:8} {count['unsupported']:12} {faults:7} {max(f.seconds for f in of):6.1f} s"
        )
    for path, finding in findings.items():
        if finding.state not in ("read", "unsupported"):
            print(f"{finding.state}: {path.relative_to(top)} {finding.reason}".rstrip())
