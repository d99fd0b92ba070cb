"""One tensor of Hugging Face's and the parameters of ours that it holds, and the links of layers that most networks have."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Link:
    """One tensor of theirs.

    name: theirs, without the prefix that all names of a body share where a model has a head. paths: of our parameters, one
    after another in it. contract: how many first axes of ours are one axis of theirs, and all others are another; None: both
    have the same axes. transposed: theirs is [out, in]. part: what it is a part of; see `ARCHITECTURES`. ones: where theirs has
    axes of size 1 that ours does not have. order: the axes of ours in the order of theirs. stacked: ours lie one after another
    along the first axis of theirs, [N, D], and may have several axes there.
    """

    name: str
    paths: tuple[str, ...]
    contract: int | None = None
    transposed: bool = False
    part: str = 'body'
    ones: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    stacked: bool = False


def linear(name, *paths, bias, contract=1, transposed=True, part='body'):
    yield Link(f'{name}.weight', tuple(f'{path}/kernel' for path in paths), contract, transposed, part)
    if bias:
        yield Link(f'{name}.bias', tuple(f'{path}/bias' for path in paths), 0, part=part)


def norm(name, path, bias, part='body'):
    yield Link(f'{name}.weight', (f'{path}/scale',), part=part)
    if bias:
        yield Link(f'{name}.bias', (f'{path}/bias',), part=part)


def table(name, path, part='body'):
    yield Link(f'{name}.weight', (f'{path}/table',), part=part)


def attention(names, path, bias, part='body'):
    """names: of query, key, value and out."""
    query, key, value, out = names
    for name, ours in ((query, 'query'), (key, 'key'), (value, 'value')):
        yield from linear(name, f'{path}/{ours}', bias=bias, part=part)
    yield from linear(out, f'{path}/out', bias=bias, contract=2, part=part)
