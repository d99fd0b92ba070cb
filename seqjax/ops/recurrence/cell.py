"""What a recurrent cell is: equations, and a declaration of its weights, its state and its gates.

The engine (`ops.recur`), the layer (`nn.RecurrentLayer`) and the X-ray (`analysis.gradient_flow`) ask the cell, and know
none by name. A cell is a frozen dataclass, so that it can be a static argument of a compiled function. Inside the loop the
batch comes last, which is the layout in which the small matmuls are fastest:

    x  [G, N, B]   the projected input W i_t + b             r  [G, N, B]   the recurrent product U h_{t-1}
    state          tuple of [..., B], h [M, B] first         weights        {name: array}, see `Cell.weights`

G gates, N hidden units, M the width of h (N, except for the projected LSTM), D inputs, B sequences.
"""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError, suggestion

Weights = Mapping[str, jax.Array]
State = tuple[jax.Array, ...]
Dot = Callable[[jax.Array], jax.Array]

KINDS = ('matrix', 'bias', 'other')


@dataclasses.dataclass(frozen=True)
class Weight:
    """A parameter of a cell.

    Args:
        shape: of the array.
        init: (key, shape, dtype) -> array, as those of `jax.nn.initializers`.
        axes: the logical name of every axis, or None; `seqjax.parallel` maps the names to a mesh.
        in_loop: the step reads it at every position. False: it is applied for all positions at once (the input
            projection, `kernel`, `prepare`, the `coefficients` and `outputs` of a linear cell), and the loop is spared it.
        kind: 'matrix': in the dtype of the matmuls, summed over its first axis, may be stored in 8 bits. 'bias': zeros in a
            layer with bias=False. 'other': anything else, in float32.
    """

    shape: tuple[int, ...]
    init: Callable[..., jax.Array]
    axes: tuple[str | None, ...]
    in_loop: bool = True
    kind: str = 'other'

    def __post_init__(self) -> None:
        if len(self.axes) != len(self.shape):
            raise FieldError('axes', self.axes, f'must name every axis of the shape {self.shape}, or be None for it')
        choose('kind', self.kind, KINDS)


@dataclasses.dataclass(frozen=True)
class Cell:
    """What the engine, the layer and the X-ray must know of a cell.

    A subclass defines `gate_kinds`, `activations` and `update`, and where they are not those below `weights` and `state`.

    gate_kinds: the activation of every gate by its name: 'sigmoid', 'tanh', 'relu', 'modrelu' or 'identity'.
    additive: the equation looks at x + r only.
    second: the name of a second matrix that the equation multiplies with inside the step, through `dot`.
    memory: (a part of the state, the gate [N] that multiplies it from one position to the next), for cells that have such
        a path through time.
    """

    gate_kinds: ClassVar[Mapping[str, str]] = {}
    additive: ClassVar[bool] = True
    second: ClassVar[str | None] = None
    memory: ClassVar[tuple[str, str] | None] = None
    linear: ClassVar[bool] = False

    @property
    def gate_names(self) -> tuple[str, ...]:
        return tuple(self.gate_kinds)

    def bias_starts(self) -> Mapping[str, float]:
        """{gate: where its bias starts}, for those that do not start at zero."""
        return {}

    def weights(self, D: int, N: int) -> dict[str, Weight]:
        """{name: Weight} of everything that is learned, for inputs of width D and N hidden units.

        'input_kernel' (W) must be among them. 'bias' (b) is added to x; 'recurrent_kernel' is U, see `kernel`.
        """
        G = len(self.gate_kinds)
        kernel = dict(axes=('embed', None, 'hidden'), in_loop=False, kind='matrix')
        return dict(input_kernel=Weight((D, G, N), uniform_gates, **kernel),
                    recurrent_kernel=Weight((N, G, N), orthogonal_gates, **kernel),
                    bias=Weight((G, N), self._biases, (None, 'hidden'), in_loop=False, kind='bias'))

    def weight_shapes(self, D: int, N: int) -> dict[str, tuple[int, ...]]:
        """{name: shape} of all weights."""
        return {name: weight.shape for name, weight in self.weights(D, N).items()}

    def state(self, N: int) -> dict[str, jax.ShapeDtypeStruct]:
        """{part: shape and dtype} of the state of one sequence. The first is h [M], which the layer puts out."""
        return dict(h=part(N))

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of the state."""
        return tuple(self.state(1))

    def zero_state(self, B: int, N: int) -> State:
        """The state of B sequences in which everything is zero."""
        return tuple(jnp.zeros((B, *part.shape), part.dtype) for part in self.state(N).values())

    def output_width(self, N: int) -> int:
        """M, the width of what the layer puts out."""
        return next(iter(self.state(N).values())).shape[0]

    def kernel(self, weights: Weights) -> jax.Array | None:
        """U [M, G, N], the matrix of the recurrent product; None: there is none, and r is 0."""
        return weights.get('recurrent_kernel')

    def prepare(self, weights: Weights, x: jax.Array) -> jax.Array:
        """What is done to the projected inputs x [G, N, T, B] of all positions before the loop."""
        del weights
        return x

    def activations(self, weights: Weights, x: jax.Array, r: jax.Array, state: State, dot: Dot | None) -> State:
        """The gates after their activation, one [N, B] a name of `gate_kinds`."""
        raise NotImplementedError

    def update(self, weights: Weights, gates: State, state: State, dot: Dot | None) -> State:
        """The new state from the activated gates."""
        raise NotImplementedError

    def step(self, weights: Weights, x: jax.Array, r: jax.Array, state: State, dot: Dot | None = None) -> State:
        """One position: the new state."""
        return self.update(weights, self.activations(weights, x, r, state, dot), state, dot)

    by_hand = False  # True: the cell brings its own `forward` and `backward` step, else the engine derives them from `step`

    def forward(self, weights: Weights, x: jax.Array, r: jax.Array, state: State) -> tuple[State, Any]:
        """(new state, what `backward` needs of this position beside the state before it)."""
        raise NotImplementedError

    def backward(self, weights: Weights, kept: Any, state: State, d_new: State) -> tuple:
        """From the gradient of the new state: those of x, of r, of the state before (without U), and of small weights."""
        raise NotImplementedError

    def _biases(self, key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
        del key
        bias = jnp.zeros(shape, dtype)
        for gate, start in self.bias_starts().items():
            bias = bias.at[self.gate_names.index(gate)].set(start)
        return bias


def part(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """A part of a state: `part(N)` is a vector, `part(N, K)` a matrix."""
    return jax.ShapeDtypeStruct(shape, dtype)


def select_rows(rows: jax.Array, new: Any, old: Any) -> Any:
    """`new` for the sequences where rows [B] is true, and `old` for the others; states of any shapes [B, ...]."""
    return jax.tree.map(lambda n, o: jnp.where(rows.reshape(-1, *(1,) * (n.ndim - 1)), n, o), new, old)


def choose(field: str, value: Any, known: Any) -> None:
    if value not in known:
        raise FieldError(field, value, suggestion(str(value), known))


def uniform_gates(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """Glorot's uniform initialization of each gate's own [D, N] matrix."""
    D, _, N = shape
    limit = jnp.sqrt(6 / (D + N)).astype(dtype)
    return jax.random.uniform(key, shape, dtype, -limit, limit)


def orthogonal_gates(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """An orthogonal [M, N] matrix for each gate."""
    M, gates, N = shape
    keys = jax.random.split(key, gates)
    return jnp.stack([jax.nn.initializers.orthogonal()(k, (M, N), dtype) for k in keys], axis=1)
