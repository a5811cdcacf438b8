"""The filter, run step by step as the kernel does it."""

import pytest

from ingestor.confinement.seccomp import ARCHITECTURES, program

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x50001, 0x50026
OURS, OTHERS = 4711, 4712
BOTH = pytest.mark.parametrize("machine", ARCHITECTURES)


def judged(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the kernel does with a call."""
    architecture = ARCHITECTURES[machine]
    data = number.to_bytes(4, "little") + (audit or architecture.audit).to_bytes(4, "little") + bytes(8)
    data += b"".join(each.to_bytes(8, "little", signed=each < 0) for each in arguments).ljust(48, b"\0")
    code, at, held = program(architecture, OURS), 0, 0
    while True:
        step = code[8 * at : 8 * at + 8]
        operation, value = int.from_bytes(step[:2], "little"), int.from_bytes(step[4:], "little")
        at += 1
        if operation == 0x20:
            held = int.from_bytes(data[value : value + 4], "little")
        elif operation == 0x54:
            held &= value
        elif operation in (0x15, 0x35):
            at += step[2] if (held == value if operation == 0x15 else held >= value) else step[3]
        else:
            assert operation == 0x06
            return value


# By the numbers that Linux gives them: x86_64, aarch64.
FORBIDDEN = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "sendmsg": (46, 211), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "execve": (59, 221), "execveat": (322, 281), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "unshare": (272, 97), "setns": (308, 268),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "init_module": (175, 105), "kexec_load": (246, 104),
    "memfd_create": (319, 279), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "truncate": (76, 45), "ftruncate": (77, 46), "unlinkat": (263, 35), "renameat2": (316, 276),
    "mkdirat": (258, 34), "symlinkat": (266, 36), "linkat": (265, 37), "fchmodat": (268, 53),
    "chroot": (161, 51), "personality": (135, 92), "seccomp": (317, 277), "shmget": (29, 194),
    "msgget": (68, 186), "mq_open": (240, 180), "setsid": (112, 157), "setpgid": (109, 154),
    "sched_setaffinity": (203, 122), "wait4": (61, 260), "inotify_init1": (294, 26), "acct": (163, 89),
    "kcmp": (312, 272),
}  # fmt: skip


@BOTH
def test_harmful_calls_fail(machine: str) -> None:
    at = list(ARCHITECTURES).index(machine)
    assert [call for call, numbers in FORBIDDEN.items() if judged(machine, numbers[at]) != EPERM] == []


def test_calls_of_another_architecture_end_the_process_and_older_ones_fail() -> None:
    assert [judged("x86_64", number) for number in (57, 58, 85)] == [EPERM] * 3, "fork, vfork, creat"
    assert judged("x86_64", 0, audit=0x40000003) == judged("aarch64", 0, audit=0x40000028) == KILL


@BOTH
def test_recent_and_unknown_calls_seem_not_to_exist(machine: str) -> None:
    """Calls of x32 have numbers from 0x40000000 on."""
    recent = (424, 425, 434, 435, 437, 438, 444, 500, 0x40000000, 0x40000039, 0xFFFFFFFF)
    assert [number for number in recent if judged(machine, number) != ENOSYS] == []


CASES = [
    ("kill", (OURS, 9), ALLOW), ("kill", (OTHERS, 9), EPERM), ("kill", (-1, 9), EPERM),
    ("kill", (0, 9), EPERM), ("tgkill", (OURS, 5, 6), ALLOW), ("tgkill", (OTHERS, OTHERS, 6), EPERM),
    ("clone", (0x3D0F00,), ALLOW), ("clone", (0x11,), EPERM),  # as pthread_create does it, and as fork
    ("clone", (0x10000 | 0x10000000,), EPERM),
    ("openat", (0, 0, 0o2000000), ALLOW), *(("openat", (0, 0, flag), EPERM) for flag in (
        0o1, 0o2, 0o100, 0o1000, 0o20000000)),
    ("prlimit64", (0, 7), ALLOW), ("prlimit64", (OTHERS, 7), EPERM),
    ("prctl", (15,), ALLOW), ("prctl", (4, 1), EPERM), ("prctl", (0x59616D61, -1), EPERM),  # PR_SET_PTRACER
    ("fcntl", (3, 3), ALLOW), ("fcntl", (3, 8, OTHERS), EPERM), ("fcntl", (3, 6), EPERM),  # F_SETOWN, F_SETLK
    ("ioctl", (0, 0x5421), ALLOW), ("ioctl", (0, 0x5412), EPERM),  # TIOCSTI
    ("read", (0,), ALLOW), ("futex", (0,), ALLOW),
]  # fmt: skip


@BOTH
def test_arguments_decide(machine: str) -> None:
    numbers = ARCHITECTURES[machine].numbers
    for call, arguments, verdict in CASES:
        assert judged(machine, numbers[call], *arguments) == verdict, (call, arguments)
    assert len(program(ARCHITECTURES[machine], OURS)) // 8 <= 4096, "as the kernel takes it"
