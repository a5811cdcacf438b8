"""Errors in words: what, where, what to do. Pure."""

import errno

_ADVICE = {
    errno.ENOENT: "{} is not there: make it, or correct the path",
    errno.EACCES: "this user may not use {}: give it the right to, or run as a user who has it",
    errno.EPERM: "this user may not use {}: give it the right to, or run as a user who has it",
    errno.ENOTDIR: "a part of {} is a file where a folder is needed: move it away, or correct the path",
    errno.EISDIR: "{} is a folder where a file is needed: correct the path",
    errno.EEXIST: "{} is there already: move it away, or choose another path",
    errno.ENOSPC: "the disk of {} is full: make room",
    errno.EDQUOT: "this user may store no more where {} lies: make room, or have the quota raised",
    errno.EROFS: "{} lies on a file system that can only be read: choose another path",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine: raise its limit",
    errno.ELOOP: "{} is a link that leads to itself: correct it",
    errno.ENAMETOOLONG: "{} is too long a name: shorten it",
    errno.EIO: "{} can't be read or written: see whether its disk is sound",
    errno.ESTALE: "{} was on a network drive that has gone: mount it again",
    errno.EADDRINUSE: "another program uses that address: stop it, or choose another port",
    errno.ECONNREFUSED: "nothing listens at the other end: see that its server runs, and where",
}


def describe(error: BaseException) -> str:
    """The error for people: without errno, and with what to do, if known."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error) or type(error).__name__
    advice = _ADVICE.get(error.errno)
    if advice is not None:
        return advice.format(_file_name(error.filename))
    return (
        f"{_file_name(error.filename)}: {error.strerror}" if error.filename else error.strerror or str(error)
    )


def _file_name(filename: object) -> str:
    if filename is None:
        return "a file"
    return filename.decode(errors="replace") if isinstance(filename, bytes) else str(filename)
