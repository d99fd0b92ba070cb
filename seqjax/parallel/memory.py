"""What becomes of the memory of a step when it ends."""

import ctypes


def keep_freed_memory():
    """Tells glibc to keep large buffers for the next step instead of returning them to the kernel after every one.

    A step on the CPU then spends no time on page faults (benchmarks/transformer.py). It is for whole programs, before their
    first step: all threads share one arena from then on, because the others return what is large whatever they are told.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, 'mallopt'):
        trim_threshold, most_mapped_buffers, most_arenas = -1, -4, -8  # of malloc.h
        libc.mallopt(most_arenas, 1)
        libc.mallopt(most_mapped_buffers, 0)
        libc.mallopt(trim_threshold, 2 ** 31 - 1)
