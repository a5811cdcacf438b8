"""Layers of confinement that a process enters before it reads hostile bytes. They need no privilege.

Namespaces remove the network. Landlock removes access to every file except some readable ones. Seccomp
removes most system calls. If a layer is missing, the reason is reported, and the other layers are still
applied.

This module imports the standard library only. The call ``unshare`` works only in a process with one thread,
and some packages start threads when they are imported. See decision 0030.
"""

import ctypes
import mimetypes
import os
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from ingestor.confinement.seccomp import ARCHITECTURES, program

_SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVS = 4, 22, 38  # of prctl(2)
_FILTER = 2  # SECCOMP_MODE_FILTER
_UTS, _IPC, _USER, _NET = 0x04000000, 0x08000000, 0x10000000, 0x40000000  # of unshare(2)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # of Landlock, on every architecture
_PATH_BENEATH = 1
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}  # number of rights by the version of Landlock
_CAPABILITIES = 0x20080522  # version 3 of capset(2)
_READ_SEARCH = 1 << 2  # CAP_DAC_READ_SEARCH: root may have to read an installation that belongs to a user
_CAPSET = {"x86_64": 126, "aarch64": 91}
# Readable besides Python's folders: shared libraries, fonts, time zones, and facts about the processor.
_SYSTEM = (
    "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64",
    "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo",
    "/usr/share/fonts", "/usr/local/share/fonts", "/usr/share/X11/fonts", "/dev/urandom", "/proc/self",
    "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip


def hide() -> None:
    """Keep this user's other processes from reading this process's memory and environment, and from tracing
    it.

    A process with CAP_SYS_PTRACE still may. On systems other than Linux the call does nothing.
    """
    with suppress(OSError):
        _prctl(_SET_DUMPABLE, 0)


def confine(folders: Iterable[str]) -> dict[str, str]:
    """Apply all layers of confinement to this process, which must have one thread.

    Return for each layer "" if it is active, else why it is missing. ``folders``: readable folders besides
    those of Python, its packages and the system's libraries.
    """
    missing = {"namespaces": detach()}
    missing |= restrict([*_SYSTEM, *_python(), *map(str, mimetypes.knownfiles), *folders])
    if missing["namespaces"] and missing["seccomp"]:
        sys.addaudithook(_refuse_network)
    return missing


def detach() -> str:
    """Leave the network by entering new namespaces. The process must have one thread.

    Return "", or why that failed.
    """
    others = _NET | _IPC | _UTS
    why = ""
    for flags in (others, _USER | others, _USER | _NET):
        try:
            _call("unshare", flags)
        except OSError as error:
            why = _reason(error)
        else:
            return ""
    return why


def restrict(readable: Iterable[str]) -> dict[str, str]:
    """Apply Landlock and seccomp to this process.

    Return for each of them "" if it is active, else why it is missing. ``readable``: files and folders that
    may be read. They need not exist.
    """
    missing = dict.fromkeys(("landlock", "seccomp"), "")
    try:
        _drop_capabilities()
        hide()  # before the filter, which forbids the call
        _prctl(_SET_NO_NEW_PRIVS, 1)
    except OSError as error:
        return dict.fromkeys(missing, f"no_new_privs: {_reason(error)}")
    steps: dict[str, Callable[[], None]] = {
        "landlock": lambda: _restrict_files(readable), "seccomp": _filter_calls
    }  # fmt: skip
    for layer, apply in steps.items():
        try:
            apply()
        except OSError as error:
            missing[layer] = _reason(error)
    return missing


def _refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse network calls of Python: an audit hook for systems on which the network cannot be removed."""
    if event in ("socket.__new__", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"):
        raise PermissionError("this process may not use the network")


def _python() -> list[str]:
    """Return the folders of Python, of its packages and of its libraries, which a process must be able to
    read."""
    libraries = [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)]  # noqa: PTH118
    return [*map(str, sys.path), *libraries, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]


def describe(layers: Mapping[str, str]) -> str:
    """Describe in words the active layers, then the missing layers with their reasons.

    ``layers``: by layer, why it is missing; "" if it is active.
    """
    held = ", ".join(name for name in layers if not layers[name])
    lost = ", ".join(f"{name} ({why})" for name, why in layers.items() if why)
    return "; ".join(filter(None, (held, lost and f"without {lost}")))


def _restrict_files(readable: Iterable[str]) -> None:
    """Apply Landlock to this process, so that it can read only these files and folders. Raises OSError."""
    version = _system(_CREATE_RULESET, None, 0, 1)
    rights = (1 << max(bits for since, bits in _FILE_RIGHTS.items() if since <= version)) - 1
    handled = struct.pack("QQQ", rights, 3, 3)  # TCP: bind, connect; scopes: abstract sockets, signals
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _system(_CREATE_RULESET, handled[:size], size, 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ_FILE | _READ_DIR)
        _allow(ruleset, os.devnull, _READ_FILE | _WRITE_FILE)
        _system(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Add a file or folder with these access rights to Landlock's rules, if it exists."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib is not imported here
            rights &= ~_READ_DIR
        _system(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
    finally:
        os.close(opened)


def _filter_calls() -> None:
    """Install the filter of system calls for this process. Raises OSError."""
    architecture = ARCHITECTURES.get(os.uname().machine)
    if architecture is None or struct.calcsize("P") != 8:
        raise OSError(0, f"the filter of system calls does not know the machine type {os.uname().machine}")
    steps = program(architecture, os.getpid())
    array = ctypes.create_string_buffer(steps, len(steps))
    _prctl(_SET_SECCOMP, _FILTER, struct.pack("HP", len(steps) // 8, ctypes.addressof(array)))


def _drop_capabilities() -> None:
    """Drop all capabilities of this process: those of root, and those that a new user namespace grants."""
    number = _CAPSET.get(os.uname().machine)
    if number is None:
        return
    kept = _READ_SEARCH if os.geteuid() == 0 else 0
    for capabilities in (kept, 0):
        with suppress(OSError):
            header = struct.pack("Ii", _CAPABILITIES, 0)
            _system(number, header, struct.pack("6I", capabilities, capabilities, 0, 0, 0, 0))
            return


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _prctl(option: int, value: int, pointer: bytes | None = None) -> None:
    _call("prctl", option, ctypes.c_ulong(value), pointer or ctypes.c_ulong(0), ctypes.c_ulong(0),
          ctypes.c_ulong(0))  # fmt: skip


def _system(number: int, *arguments: object) -> int:
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _call("syscall", ctypes.c_long(number), *wide)


def _call(name: str, *arguments: object) -> int:
    """Call a function of libc. Raises OSError if the call fails or libc lacks the function.

    Raises OSError on systems other than Linux, too, where the same numbers mean other system calls.
    """
    if sys.platform != "linux":
        raise OSError(0, f"{sys.platform} has no system function {name}")
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except AttributeError:
        raise OSError(0, f"this system has no function {name}") from None
    function.restype = ctypes.c_int
    result: int = function(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
