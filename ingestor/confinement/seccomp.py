"""The system calls that a confined process may make, as a program for the kernel's filter. Pure.

The table lists the allowed calls; all other calls fail. Allowed are threads, memory, time and reading. New
sockets, new processes, other programs and opening files for writing are not allowed. Nor are mounts, kernel
features such as bpf and io_uring, and access to the signals, memory and limits of other processes. The filter
needs no privilege to install, and a process cannot remove it. See seccomp(2) and the kernel's
networking/filter.rst.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06  # operations of classic BPF
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
# Calls from this number on came with Linux 5.1 or later and have the same number everywhere. They fail with
# ENOSYS, not EPERM: libc then uses older calls instead (clone3, openat2).
_RECENT = 424

_THREAD = 0x10000
_NAMESPACES = 0x7E020000  # flags of clone(2)
_WRITING = 0o20001103  # of open(2): access mode, O_CREAT, O_TRUNC, O_TMPFILE
_WHOLE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Test:
    """A condition on one argument of a system call.

    The argument's low 32 bits, combined with ``mask`` by a bitwise and, must equal one of ``values``.
    ``argument``: the position of the argument, counted from 0.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = _WHOLE


@dataclass(frozen=True, slots=True)
class Architecture:
    """A processor architecture.

    ``audit``: its AUDIT_ARCH number. ``numbers``: the numbers of the allowed system calls, by name.
    """

    audit: int
    numbers: Mapping[str, int]


def _table(text: str) -> dict[str, int]:
    """Return the numbers of system calls by name. ``text``: names and numbers in turn."""
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


# Architectures by the name that uname(2) gives.
ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, _table("""
        read 0 write 1 open 2 close 3 stat 4 fstat 5 lstat 6 poll 7 lseek 8 mmap 9 mprotect 10 munmap 11
        brk 12 rt_sigaction 13 rt_sigprocmask 14 rt_sigreturn 15 ioctl 16 pread64 17 pwrite64 18 readv 19
        writev 20 access 21 pipe 22 select 23 sched_yield 24 mremap 25 msync 26 mincore 27 madvise 28 dup 32
        dup2 33 pause 34 nanosleep 35 getitimer 36 alarm 37 setitimer 38 getpid 39 sendto 44 recvfrom 45
        shutdown 48 getsockname 51 getpeername 52 getsockopt 55 clone 56 exit 60 kill 62 uname 63 fcntl 72
        fsync 74 getdents 78 getcwd 79 readlink 89 umask 95 gettimeofday 96 getrlimit 97 getrusage 98
        sysinfo 99 times 100 getuid 102 getgid 104 geteuid 107 getegid 108 getppid 110 getpgrp 111
        getgroups 115 getresuid 118 getresgid 120 getpgid 121 getsid 124 rt_sigpending 127
        rt_sigtimedwait 128 rt_sigsuspend 130 sigaltstack 131 statfs 137 fstatfs 138 getpriority 140
        sched_getparam 143 sched_getscheduler 145 prctl 157 arch_prctl 158 setrlimit 160 gettid 186 time 201
        futex 202 sched_getaffinity 204 getdents64 217 set_tid_address 218 restart_syscall 219 fadvise64 221
        clock_gettime 228 clock_getres 229 clock_nanosleep 230 exit_group 231 epoll_wait 232 epoll_ctl 233
        tgkill 234 get_mempolicy 239 openat 257 newfstatat 262 readlinkat 267 faccessat 269 pselect6 270
        ppoll 271 set_robust_list 273 epoll_pwait 281 eventfd2 290 epoll_create1 291 dup3 292 pipe2 293
        preadv 295 pwritev 296 prlimit64 302 getcpu 309 getrandom 318 membarrier 324 statx 332 rseq 334
        close_range 436 faccessat2 439
    """)),
    "aarch64": Architecture(0xC00000B7, _table("""
        getcwd 17 eventfd2 19 epoll_create1 20 epoll_ctl 21 epoll_pwait 22 dup 23 dup3 24 fcntl 25 ioctl 29
        statfs 43 fstatfs 44 faccessat 48 openat 56 close 57 pipe2 59 getdents64 61 lseek 62 read 63 write 64
        readv 65 writev 66 pread64 67 pwrite64 68 preadv 69 pwritev 70 pselect6 72 ppoll 73 readlinkat 78
        newfstatat 79 fstat 80 fsync 82 exit 93 exit_group 94 set_tid_address 96 futex 98 set_robust_list 99
        nanosleep 101 getitimer 102 setitimer 103 clock_gettime 113 clock_getres 114 clock_nanosleep 115
        sched_getscheduler 120 sched_getparam 121 sched_getaffinity 123 sched_yield 124 restart_syscall 128
        kill 129 tgkill 131 sigaltstack 132 rt_sigsuspend 133 rt_sigaction 134 rt_sigprocmask 135
        rt_sigpending 136 rt_sigtimedwait 137 rt_sigreturn 139 getpriority 141 getresuid 148 getresgid 150
        times 153 getpgid 155 getsid 156 getgroups 158 uname 160 getrlimit 163 setrlimit 164 getrusage 165
        umask 166 prctl 167 getcpu 168 gettimeofday 169 getpid 172 getppid 173 getuid 174 geteuid 175
        getgid 176 getegid 177 gettid 178 sysinfo 179 getsockname 204 getpeername 205 sendto 206 recvfrom 207
        getsockopt 209 shutdown 210 brk 214 munmap 215 mremap 216 clone 220 mmap 222 fadvise64 223
        mprotect 226 msync 227 mincore 232 madvise 233 get_mempolicy 236 prlimit64 261 getrandom 278
        membarrier 283 statx 291 rseq 293 close_range 436 faccessat2 439
    """)),
}  # fmt: skip


def limits(process: int) -> dict[str, tuple[Test, ...]]:
    """Return the conditions on the arguments of system calls, by the name of the call.

    ``process``: id of the confined process, which may send signals only to itself.
    """
    return {
        "clone": (Test(0, (_THREAD,), _THREAD | _NAMESPACES),),  # a thread, and no process
        "open": (Test(1, (0,), _WRITING),),
        "openat": (Test(2, (0,), _WRITING),),
        "kill": (Test(0, (process,)),),
        "tgkill": (Test(0, (process,)),),
        "prlimit64": (Test(0, (0, process)),),
        # TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
        "ioctl": (Test(1, (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)),),
        # duplicates and flags; no locks, and no signals by F_SETOWN
        "fcntl": (Test(1, (0, 1, 2, 3, 4, 1030)),),
        # PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_NO_NEW_PRIVS, PR_SET_VMA
        "prctl": (Test(0, (3, 15, 16, 39, 0x53564D41)),),
    }


def program(architecture: Architecture, process: int) -> bytes:
    """Return the filter as bytes, an array of struct sock_filter. ``process``: id of the confined process."""
    tests = limits(process)
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, architecture.audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    for name, number in architecture.numbers.items():
        body = _check_tests(tests.get(name, ()))
        code += [_step(_EQUAL, number, 0, len(body)), *body]
    code += [_step(_AT_LEAST, _RECENT, 0, 1), _step(_RETURN, _ERROR | _ENOSYS)]
    return b"".join([*code, _step(_RETURN, _ERROR | _EPERM)])


def _check_tests(tests: tuple[Test, ...]) -> list[bytes]:
    """Return the filter's instructions that allow a call if its arguments pass all tests, and refuse it
    otherwise."""
    body: list[bytes] = []
    for test in tests:
        body += [_step(_LOAD, _ARGUMENTS + 8 * test.argument), _step(_AND, test.mask)]
        left = len(test.values)
        body += [_step(_EQUAL, value, left - at, 0) for at, value in enumerate(test.values)]
        body.append(_step(_RETURN, _ERROR | _EPERM))
    return [*body, _step(_RETURN, _ALLOW)]


def _step(operation: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """Encode one instruction of the filter.

    ``then``, ``otherwise``: how many instructions to skip if its test is true, or false.
    """
    return operation.to_bytes(2, "little") + bytes([then, otherwise]) + value.to_bytes(4, "little")
