"""The log on standard error: lines of text for people, or a JSON object on each line for programs.

Fields of ``extra`` follow the message as ``document=a.md``, or are keys of the object. Further lines of a
message are indented, and control characters are escaped, so that no document's text can pass for a log line.
"""

import json
import logging
import re
import sys
import threading
from datetime import UTC, datetime
from typing import Any

from ingestor.core.escape import escape_invisible
from ingestor.core.events import event

_LIBRARIES = (
    "chromadb", "httpcore", "httpx", "mcp", "watchdog", "sentence_transformers", "transformers", "urllib3",
)  # fmt: skip
_PLAIN = r"[^\s\"=]+"  # a value that needs no quotes
_STANDARD = {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}


def set_up(level: str, form: str) -> None:
    """Set up the log. ``level``: debug, info, warning or error. ``form``: text or json.

    Libraries log only errors; at level debug, also warnings. Python's warnings are logged. With json, an
    error that ends the program or a thread is logged, too.
    """
    handler = Stderr()
    handler.setFormatter(Json() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    if form == "json":
        sys.excepthook = lambda kind, error, trace: _log_defect(error)
        threading.excepthook = lambda failure: _log_defect(failure.exc_value)
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING if level == "debug" else logging.ERROR)


def is_json() -> bool:
    """Return whether each line of the log is a JSON object."""
    return any(isinstance(handler.formatter, Json) for handler in logging.getLogger().handlers)


def _log_defect(error: BaseException | None) -> None:
    """Log an error that ends the program or a thread, with its traceback."""
    log = logging.getLogger("ingestor")
    log.critical("unexpected error: %s", error, exc_info=error, extra=event("ended"))


class Stderr(logging.Handler):
    """Log handler that writes to ``sys.stderr`` as it is at each message.

    A progress bar replaces ``sys.stderr`` to print lines above itself.
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):  # standard error is closed
            pass


class TextFormatter(logging.Formatter):
    """Formats a log record as a line with time, level, message and fields, and a traceback below, if any."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        extra = _extra(record)
        trace = extra.pop("trace", None) or (record.exc_info and self.formatException(record.exc_info))
        shown = {} if "event" in extra else extra  # the message of an event names its fields
        fields = "".join(
            f" {name}={text if re.fullmatch(_PLAIN, text) else json.dumps(text, ensure_ascii=False)}"
            for name, text in ((name, str(value)) for name, value in shown.items())
        )
        trace = f"\n{trace.rstrip()}" if trace else ""
        shown_line = f"{at} {record.levelname:7} {record.getMessage()}{fields}{trace}"
        return escape_invisible(shown_line).replace("\n", "\n    ")


class Json(logging.Formatter):
    """Formats a log record as a JSON object on one line; docs/running.md lists the events and their keys."""

    def format(self, record: logging.LogRecord) -> str:
        ours = record.name.partition(".")[0] == "ingestor"
        line = {
            "event": "message" if ours else "library",
            **({} if ours else {"logger": record.name}),
            **_extra(record),
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return escape_invisible(json.dumps(line, ensure_ascii=False, default=str))


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that the caller passed as ``extra``."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
