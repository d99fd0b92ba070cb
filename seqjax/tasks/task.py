"""What all tasks share: a model, how its variables are made, and what the rest of the house asks of a task instead of its name.

Shapes: B rows, T positions, C classes.
"""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

from flax import linen
from flax.core import meta
import jax
import jax.numpy as jnp

from seqjax import metrics, models
from seqjax.tasks.options import NoOptions
from seqjax.tasks.sums import Sums


class Input(NamedTuple):
    """An exported input: whole numbers [shape] from 0 to `at_most`. Axes are numbers or names; so is `at_most`."""

    shape: tuple
    at_most: int | str

    def describe(self) -> dict[str, Any]:
        return dict(shape=list(self.shape), dtype='int32', at_most=self.at_most)


@dataclasses.dataclass(frozen=True)
class Task:
    """A model with something to learn.

        task(params, batch, key=None)     Sums; with a key the model is in training, and dropout draws from it
        task.at(step)                     the same, as it is at a step of training
        task.prepare(batch, keys=None)    the batch that all of these are given, of one as it is loaded: augmented, normalised
        task.predict(params, batch)       {name: array}: the predictions for a batch without targets
        task.summary(sums)                {name: number}: what a reader wants to see of an evaluation; see `numbers`

    A loss that compares the rows of a batch with one another (contrastive losses) is given in two parts, and `__call__` follows:

        represent(params, batch, key)         a pytree of arrays [B, ...], row b from row b of the batch alone
        pair_loss(params, outputs, batch)     Sums, of the outputs of the WHOLE global batch, and of that batch

    Training computes it over all rows of the global batch, also where devices hold some of them each and where gradients are
    accumulated over micro-batches (GradCache, Gao et al. 2021).

    What a task keeps beside the parameters, as a teacher that follows them, is `task.state` while a step is computed. It is saved
    with them, and a step that is skipped leaves it as it is:

        initial_state(params)                 a pytree before the first step; None: nothing is kept
        next_state(state, params, sums, step) after an update

    A model with batch norms is `models.WithStatistics` while a step is computed, which knows its statistics and updates them: a task
    applies it to {'params': params} as any other. It is not applied within jax.checkpoint, jax.lax.scan or vmap of the task's own, where
    updates would be lost; linen's lifted transforms in the model are the way.

    Class attributes:
        data: the kind of data it is learned from: 'text', 'masked', 'spans', 'labelled', 'pairs', 'captions' or 'series'.
        target: of labelled data, what an example has: a 'class', a 'number' or 'labels', one for every position.
        output_kind: what its model must compute, one of the `output_kinds` of its class.
        unit: of the loss, for plots.
        decodes: a sequence is the answer to a sequence, written token by token. writes: a text is continued.
        of_images: it is learned from images alone.
        per_step: there is a label for every position.
        answer: what a prediction is called in --mode=predict; '' where there is none.
        options: a dataclass of `fields.field`, the fields of `config.train` that are its own; those that are called as fields of
            the task set them.
        baseline: the `metrics.baseline_scores` that are reported beside its own; '' for none.
        remarks: a method, {'loss': ...} of an evaluation -> {name: sentence} for the screen and result.json, '' where nothing is to be
            said; None: there is never anything.
    """

    model: linen.Module
    state: Any = dataclasses.field(default=None, kw_only=True, repr=False, compare=False)

    data: ClassVar[str]
    target: ClassVar[str] = ''
    output_kind: ClassVar[str]
    unit: ClassVar[str] = 'loss'
    decodes: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    of_images: ClassVar[bool] = False
    per_step: ClassVar[bool] = False
    answer: ClassVar[str] = ''
    options: ClassVar[type] = NoOptions
    baseline: ClassVar[str] = ''
    remarks: ClassVar[Callable[..., dict[str, str]] | None] = None

    # -------------------------------------------------------------------------------------------- asked of the class

    @classmethod
    def takes(cls) -> str:
        """What a set of data must have to be learned: the kind of target of a sequence, or else the kind of data."""
        return cls.target or cls.data

    @classmethod
    def settings(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of the task that `options`, `config.train`, decide."""
        own = {field.name for field in dataclasses.fields(cls)}
        return {field.name: options[field.name] for field in dataclasses.fields(cls.options) if field.name in own}

    @classmethod
    def head(cls, classes: tuple[str, ...]) -> dict[str, Any]:
        """Fields of a model that say how much it computes for a row, or for a position of it."""
        return dict(outputs=len(classes) or 1, per_step=cls.per_step)

    @classmethod
    def batch_spec(cls, options: Mapping[str, Any], B: int, T: int) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes of a batch of full rows of T tokens. options: `config.data`."""
        targets, dtype = cls.target_spec(options, B, T)
        return dict(inputs=_spec((B, T), jnp.int32), lengths=_spec((B,), jnp.int32), targets=_spec(targets, dtype),
                    weights=_spec(targets, jnp.float32))

    @classmethod
    def target_spec(cls, options: Mapping[str, Any], B: int, T: int) -> tuple[tuple[int, ...], Any]:
        """(shape, dtype) of the targets."""
        if cls.data == 'labelled' and not cls.per_step:
            return (B,), jnp.float32 if cls.target == 'number' else jnp.int32
        return (B, T), jnp.int32

    @classmethod
    def longest_row(cls, options: Mapping[str, Any]) -> int:
        """The positions that no row has more of, as `config.data` says; 0 where it does not."""
        return options.get('max_length') or options.get('sequence_length', 0)

    # ------------------------------------------------------------------------------------------------- asked of a task

    def __call__(self, params: Any, batch: dict, key: jax.Array | None = None) -> Sums:
        return self.pair_loss(params, self.represent(params, batch, key), batch)

    def at(self, step: jax.Array) -> Self:
        """The task at a step of training: what it asks may change as the model learns."""
        del step
        return self

    def prepare(self, batch: dict, keys: jax.Array | None = None) -> dict:
        """The batch that the task is given, of a batch as it is loaded: where images are augmented, views are made, numbers are
        normalised. Computed on the device, in the training and the evaluation step, before anything else.

        Args:
            batch: arrays [B, ...].
            keys: [B], one for every row, in training: fold_in(fold_in(key(seed), step), number of the row in the global batch).
                Row b may draw from keys[b] alone, and is then the same on every mesh, under `pmap` and with gradient
                accumulation; None in evaluation, where nothing is drawn.
        """
        del keys
        return batch

    def init(self, key: jax.Array, batch: dict) -> dict:
        """Variables of the model, their axes named."""
        return self.model.init(key, batch['inputs'])

    def plain_variables(self, key: jax.Array, batch: dict) -> dict:
        """The same as plain arrays: 'params' and, of a model with batch norms, 'batch_stats'."""
        return meta.unbox(self.init(key, batch))

    def plain_init(self, key: jax.Array, batch: dict) -> dict:
        """Parameters of the model, as plain arrays."""
        return self.plain_variables(key, batch)['params']

    def initial_state(self, params: Any) -> Any:
        """What the task keeps beside the parameters, before the first step: a pytree of arrays, or None."""
        del params

    def next_state(self, state: Any, params: Any, sums: Sums, step: jax.Array) -> Any:
        """The same after an update.

        Args:
            params: after the update, as the model takes them. Running statistics are `self.model.batch_stats`.
            sums: of the global batch. Metrics of it that are arrays, as a sum of outputs over rows, are for here alone.
            step: number of the update, the first is 0.
        """
        del params, sums, step
        return state

    def holding(self, batch_stats: Any = None, state: Any = None, **options: Any) -> Self:
        """The task with running statistics of its model and with its state, where there are some. options: of
        `models.WithStatistics`."""
        held = {} if state is None else dict(state=state)
        if batch_stats is not None:
            held['model'] = models.WithStatistics(self.model, batch_stats, **options)
        return dataclasses.replace(self, **held) if held else self

    def outputs(self, params: Any, batch: dict, key: jax.Array | None = None) -> Any:
        """The outputs of the model for a batch of sequences, each up to its own length."""
        packed = dict(segments=batch['segments']) if 'segments' in batch else {}
        return self.model.apply({'params': params}, batch['inputs'], batch.get('lengths'), train=key is not None,
                                rngs=None if key is None else {'dropout': key}, **packed)

    def features(self, params: Any, inputs: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """[B, D], what the head of a network for images is given."""
        return self.model.apply({'params': params}, inputs, method='features', train=key is not None,
                                rngs=None if key is None else {'dropout': key})

    def summary(self, sums: Sums) -> dict[str, float]:
        """Numbers to report of an evaluation: those of the task, and every registered metric that it has the arguments of."""
        return {**self.numbers(sums), **metrics.measure(self.found(sums))}

    def numbers(self, sums: Sums) -> dict[str, float]:
        """Numbers of the task itself."""
        return sums.means()

    def found(self, sums: Sums) -> dict[str, Any]:
        """What metrics may ask for: 'loss', 'weight' and the metrics of `sums` as they were added up, 'classes' where there
        are some, and the values of `sums.rows`, those of weight 0 left out."""
        rows = dict(sums.rows)
        counted = rows.pop('weights', None)
        if counted is not None:
            rows = {name: values[counted > 0] for name, values in rows.items()}
        classes = dict(classes=self.classes) if hasattr(self, 'classes') else {}
        return dict(loss=sums.loss, weight=sums.weight, **sums.metrics, **rows, **classes)

    # ------------------------------------------------------------------------------------------ asked by modes of a run

    def parse(self, line: str, codec: Any) -> tuple[Any, str | None]:
        """(the sequence that a line of --mode=predict is, None), or (None, why it is none)."""
        return codec.sequence(line, words=self.per_step)

    def row(self, sequence: Any, codec: Any) -> dict:
        """dict(inputs) of a sequence."""
        return codec.fitted(dict(inputs=codec.inputs(sequence)))

    def render(self, line: str, sequence: Any, row: dict, outputs: dict, codec: Any) -> dict:
        """The prediction for a line, as JSON has it. row: what the model was given; outputs: of `predict`, for this row."""
        raise NotImplementedError

    def exported(self, T: int | str, codec: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Input]]:
        """(forward(params, **inputs) -> {name: array}, its inputs by name). T: the positions of a row, or the name of their
        axis; options: `config.data`."""
        del options
        inputs, given = _token_inputs(self.model, T, codec)

        def forward(params, lengths, **inputs):
            return self.answers(params, dict(inputs=given(inputs), lengths=lengths))

        return forward, {**inputs, 'lengths': Input(('B',), T)}

    def answers(self, params: Any, batch: dict) -> dict[str, jax.Array]:
        """{name: array}, the outputs of an exported program."""
        return dict(logits=self.outputs(params, batch))


def _spec(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _token_inputs(model, T, codec):
    """(Inputs of token numbers, a function from their arrays to what the model reads)."""
    if getattr(codec, 'spelling', None):
        return dict(words=Input(('B', T), model.vocabulary - 1),
                    characters=Input(('B', T, codec.spelling_length), model.characters - 1)), lambda inputs: inputs
    return dict(tokens=Input(('B', T), model.vocabulary - 1)), lambda inputs: inputs['tokens']
