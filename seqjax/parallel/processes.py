"""Simulated devices, and many processes as one: with explicit addresses, or as the cluster says."""

import ipaddress
import os

import jax

from seqjax.errors import UserError


THREADS_PER_DEVICE = 2  # with one a device, jax 0.10 can wait for ever: a collective holds the thread that another needs


def simulate_devices(count: int) -> None:
    """Makes the CPU `count` devices, with threads enough for their collectives, before the first computation.

    The environment variable NPROC, which XLA reads for the size of its thread pools, is only raised, never lowered.
    """
    jax.config.update('jax_num_cpu_devices', count)
    given = os.environ.get('NPROC', '')
    threads = int(given) if given.isdigit() else os.cpu_count() or 1
    os.environ['NPROC'] = str(max(threads, THREADS_PER_DEVICE * count))


def start_processes(coordinator, processes, process):
    """Joins this process to the others through `jax.distributed`, before the first computation.

    coordinator: 'HOST:PORT' of process 0, or 'auto' where Slurm, Open MPI, Kubernetes or a TPU pod says who is who.
    Nothing listens on a port unless this is called; with a loopback coordinator nothing listens beyond this machine.
    """
    if coordinator == 'auto':
        try:
            jax.distributed.initialize()
        except (ValueError, RuntimeError) as error:
            raise UserError(f"--coordinator=auto found no cluster to join ({error}); give --coordinator=HOST:PORT "
                            '--processes=N --process=I instead') from error
        return
    host, separator, port = coordinator.rpartition(':')
    if not separator or not host or not port.isdigit():
        raise UserError(f"--coordinator={coordinator}: write HOST:PORT of process 0, or 'auto'")
    if processes < 1 or not 0 <= process < processes:
        raise UserError(f'--process={process} --processes={processes}: processes are numbered 0 to N-1; give each its own number')
    if jax.config.jax_platforms in (None, 'cpu', ''):
        jax.config.update('jax_cpu_collectives_implementation', 'gloo')
    bind = dict(coordinator_bind_address=coordinator) if _is_loopback(host) and process == 0 else {}
    jax.distributed.initialize(coordinator, processes, process, **bind)


def _is_loopback(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == 'localhost'
