"""Process that runs Python code which returns documents; see connectors/programs/loading.py.

Standard input has two pickles, ``sys.path`` and the LoadRequest. Standard output has a JSON object on each
line: documents, then an error or ``{"end": true}``. Output of the code itself goes to standard error. Only
one small module of ingestor is imported, so that the process starts quickly.
"""

import inspect
import json
import os
import pickle
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import IO, Any

from ingestor.connectors.shared.typed import scalar

_LOADING = ("lazy_load", "load", "load_data")  # of LangChain loaders and LlamaIndex readers
_THEIRS = {"NeedsHuman": "human", "Transient": "failed"}  # errors of ingestor that the code may raise


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Code to call in the child process, and how to convert its documents."""

    call: str  # ``module:name``
    arguments: dict[str, Any]  # of the call
    load: dict[str, Any]  # arguments of the loader's method
    key: tuple[str, ...]  # metadata keys that identify a document without a ``key``
    ending: str  # file extension that sets the format of texts
    package: str = ""  # name for pip of the package that has the code


class ProgramUnusable(Exception):
    """Error: the code cannot be used until a person changes the config or installs a package."""


def main() -> None:
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # redirects output of C code, too
        sys.path[:] = pickle.load(sys.stdin.buffer)  # noqa: S301 - our parent wrote it
        request: LoadRequest = pickle.load(sys.stdin.buffer)  # noqa: S301
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        _answer(request, out)


def _answer(request: LoadRequest, out: IO[bytes]) -> None:
    try:
        for number, document in enumerate(_documents(request), 1):
            _send(out, facts_of(document, number, request))
        _send(out, {"end": True})
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the code may raise anything
        if isinstance(error, ProgramUnusable | ImportError) or type(error).__name__ in _THEIRS:
            reason = _import_trouble(error, request) if isinstance(error, ImportError) else str(error)
            _send(out, {_THEIRS.get(type(error).__name__, "human"): reason})
        else:
            _send(out, {"failed": f"{request.call} failed: {type(error).__name__}: {error}"})


def _send(out: IO[bytes], message: dict[str, Any]) -> None:
    out.write(json.dumps(message).encode() + b"\n")
    out.flush()


def _documents(request: LoadRequest) -> Iterator[Any]:
    callable_ = _find(request)
    _check(callable_, request.arguments, request.call, "`arguments` and `secrets`")
    result = callable_(**request.arguments)
    loading = next((name for name in _LOADING if hasattr(result, name)), None)
    if loading is not None:
        method = getattr(result, loading)
        _check(method, request.load, f"{loading} of {request.call}", "`load`")
        result = method(**request.load)
    if not isinstance(result, Iterable) or isinstance(result, str | bytes | Mapping):
        raise ProgramUnusable(
            f"{request.call} returns {type(result).__name__}, which is not a list of documents"
        )
    yield from result


def _find(request: LoadRequest) -> Any:
    module, _, name = request.call.partition(":")
    value: Any = import_module(module)
    for part in name.split("."):
        if not hasattr(value, part):
            near = get_close_matches(part, getattr(value, "__all__", None) or dir(value), cutoff=0.75)
            advice = f"; did you mean {' or '.join(near)}?" if near else ": install it, or correct its name"
            raise ProgramUnusable(f"{request.call} does not exist{advice}")
        value = getattr(value, part)
    return value


def _check(callable_: Callable[..., Any], arguments: dict[str, Any], called: str, option: str) -> None:
    """Raise ProgramUnusable if a callable does not accept the arguments.

    After this check, a TypeError is an error of the code itself. ``called``: name of the callable.
    ``option``: option of the config that has the arguments.
    """
    try:
        signature = inspect.signature(callable_)
    except ValueError:  # functions written in C have no signature
        return
    except TypeError as error:
        raise ProgramUnusable(f"{called} can't be called: {error}") from error
    try:
        signature.bind(**arguments)
    except TypeError as error:
        names = ", ".join(signature.parameters) or "nothing"
        raise ProgramUnusable(f"{called}: {error}; {option} may hold: {names}") from error


def _import_trouble(error: ImportError, request: LoadRequest) -> str:
    """Return the message for code that cannot be imported.

    Either its own module is not installed, or a module that it imports.
    """
    module, missing = request.call.partition(":")[0], error.name or ""
    if missing and f"{module}.".startswith(f"{missing}."):
        pip = f" ({_pip(request.package)})" if request.package else ""
        return f"{request.call} does not exist ({error}): install it, or correct its name{pip}"
    pip = f": {_pip(missing.partition('.')[0])}" if missing else ""
    return f"{request.call} can't be used ({error}){pip}"


def _pip(package: str) -> str:
    return f"{sys.executable} -m pip install {package}"


def facts_of(document: Any, number: int, request: LoadRequest) -> dict[str, Any]:
    """Convert a document that the code returned to the fields of a ``LoadedDocument``, as JSON values.

    The content is ``text``, or ``data`` in base64. ``number``: position of the document, for messages. Raises
    ProgramUnusable.
    """
    facts = document if isinstance(document, Mapping) else _facts(document)
    metadata = dict(facts.get("metadata") or {})
    content = facts.get("data", facts.get("text"))
    if not isinstance(content, str | bytes):
        raise ProgramUnusable(f"document {number} of {request.call} has neither `text` nor `data`")
    among = {"id_": getattr(document, "id_", None), **metadata}
    candidates = (facts.get("key"), *map(among.get, request.key))
    key = next((str(value) for value in candidates if value not in (None, "")), None)
    if key is None:
        names, has = ", ".join(request.key), ", ".join(map(str, metadata)) or "nothing"
        raise ProgramUnusable(
            f"document {number} of {request.call} has no key and none of {names}: set `key` (its metadata "
            f"has {has})"
        )
    typed = [(str(name), scalar(value)) for name, value in metadata.items()]
    return {
        "key": key,
        "text": content if isinstance(content, str) else None,
        "data": b64encode(content).decode() if isinstance(content, bytes) else None,
        "name": key.rpartition("/")[2] if isinstance(content, bytes) else f"text{request.ending}",
        "uri": str(facts.get("uri") or key),
        "metadata": {name: value for name, value in typed if value is not None},
    }


def _facts(document: Any) -> dict[str, Any]:
    """Return text and metadata of a LangChain or LlamaIndex document.

    The id of a LlamaIndex document is left out, because it is often random.
    """
    text = getattr(document, "page_content", None)
    if text is None and hasattr(document, "get_content"):
        text = document.get_content()
    return {"text": text, "metadata": getattr(document, "metadata", None)}


if __name__ == "__main__":
    main()
