"""Optimizers by their optax name, with clipping, decay masks and parts with a rate of their own.

Parts of a model are named by glob patterns over parameter paths: '*/block_0/*', '*bias', 'embedding/table'. Parts that are
not trained never get here: see `freezing`.
"""

import fnmatch
import inspect
import math
from typing import Any

import optax
import optax.contrib

from seqjax.errors import FieldError, suggestion
from seqjax.params.paths import map_paths, matches, matches_any, parameter_paths, parse

# These need the loss, a line search or a random key at every update (the first rows), evaluate with other parameters than
# they train (the next) or cannot follow a schedule (the last); a plain training step does not give them that.
_NEED_MORE = {'lbfgs', 'polyak_sgd', 'noisy_sgd', 'dpsgd', 'optimistic_adam', 'momo', 'momo_adam', 'adahessian', 'sophia',
              'galore',
              'schedule_free', 'schedule_free_adamw', 'schedule_free_sgd',
              'rprop', 'sm3'}
TUNABLE = ('b1', 'b2', 'eps', 'momentum')


def available():
    """name -> optax function, for every optimizer that a learning rate makes complete."""
    found = {}
    for module in (optax.contrib, optax):  # optax last: its own names win
        for name, function in inspect.getmembers(module, inspect.isfunction):
            parameters = list(inspect.signature(function).parameters.values())
            required = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
            takes_rate = any(p.name == 'learning_rate' for p in parameters)
            complete = takes_rate and set(required) <= {'learning_rate'} and not name.startswith('scale_by_')
            if complete and name not in _NEED_MORE:
                found[name] = function
    return found


def make_optimizer(name: str = 'adamw', learning_rate: Any = 1e-3, *, clip_norm: float = 0.0, clip_value: float = 0.0,
                   weight_decay: float = 0.0, no_decay: str = '*bias,*scale', layerwise_rates: str = '',
                   **tuned: float | None) -> optax.GradientTransformation:
    """The optax transformation that `name` names.

        make_optimizer('adamw', make_schedule('cosine', 1e-3, steps=1000), weight_decay=0.1, b2=0.95, clip_norm=1.0)

    Order: clip each value, clip the global norm, the named optimizer, the factors of parts with a rate of their own.

    Args:
        name: any optimizer of optax that a learning rate makes complete. learning_rate: a number or a schedule.
        clip_norm, clip_value: gradient clipping by global norm and by value; 0: off.
        weight_decay: 0: off, whatever optax would choose; of 'sgd' weight_decay * W is added to the gradient, before momentum.
        no_decay: patterns of the parameters that are spared; the trust ratio of LARS leaves them out, too.
        layerwise_rates: factors of the learning rate for parts, 'embedding/*=0.1,output/*=2'.
        tuned: b1, b2, eps and momentum; None: what optax chooses.
    """
    chain = []
    if clip_value:
        chain.append(optax.clip(clip_value))
    if clip_norm:
        chain.append(optax.clip_by_global_norm(clip_norm))
    chain.append(_named(name, learning_rate, weight_decay, no_decay, tuned))
    if layerwise_rates:
        chain.append(_scale_parts(_parse_rates(layerwise_rates)))
    return optax.chain(*chain)


def check_rates(layerwise_rates: str, params: Any) -> None:
    """Every pattern of `layerwise_rates` must name a parameter, or the user has misspelt one."""
    paths = parameter_paths(params)
    for pattern, _ in _parse_rates(layerwise_rates):
        if not matches_any(paths, pattern):
            raise FieldError('layerwise_rates', pattern, f'matches no parameter; there are: {", ".join(paths)}')


def _named(optimizer, learning_rate, weight_decay, no_decay, tuned):
    offered = available()
    if optimizer not in offered:
        raise FieldError('name', optimizer, f'no such optimizer; {suggestion(optimizer, offered)}')
    function = offered[optimizer]
    accepted = inspect.signature(function).parameters
    for name in tuned:
        if name not in TUNABLE:
            raise TypeError(f'make_optimizer() has no argument {name!r}; {suggestion(name, TUNABLE)}')
    chosen = {name: tuned[name] for name in TUNABLE if tuned.get(name) is not None}
    for name in chosen:
        if name not in accepted:
            raise FieldError(name, chosen[name], f"'{optimizer}' does not take it; set it to none")
    spared = parse(no_decay)
    decayed = lambda params: map_paths(lambda path, _: not matches(path, spared), params)
    if 'trust_ratio_mask' in accepted:
        chosen['trust_ratio_mask'] = decayed  # LARS: biases and norms take plain steps (You et al. 2017; SimCLR, appendix B.6)
    if weight_decay and optimizer == 'sgd':  # an L2 penalty, with momentum, as in torch and in the papers on ResNets
        return optax.chain(optax.add_decayed_weights(weight_decay, decayed), function(learning_rate=learning_rate, **chosen))
    if weight_decay:
        if 'weight_decay' not in accepted:
            raise FieldError('weight_decay', weight_decay, f"'{optimizer}' has no weight decay; set it to 0, or use 'adamw'")
        chosen['weight_decay'] = weight_decay
        mask = next((name for name in ('mask', 'weight_decay_mask') if name in accepted), None)
        if mask:
            chosen[mask] = decayed
        elif spared:
            raise FieldError('no_decay', no_decay, f"'{optimizer}' decays all parameters; set it to ''")
    elif 'weight_decay' in accepted:
        chosen['weight_decay'] = 0.0  # what the config says, not what optax would choose
    return function(learning_rate=learning_rate, **chosen)


def _scale_parts(rates):
    """Multiplies the update of a parameter by the factor of the last pattern that matches its path."""
    def scale(path, update):
        factors = [factor for pattern, factor in rates if fnmatch.fnmatchcase(path, pattern)]
        return update * factors[-1] if factors else update

    return optax.stateless(lambda updates, _: map_paths(scale, updates))


def _parse_rates(text):
    """'embedding/*=0.1,block_3/*=2' -> [('embedding/*', 0.1), ('block_3/*', 2.0)]."""
    rates = []
    for part in parse(text):
        pattern, _, factor = part.rpartition('=')
        try:
            rates.append((pattern.strip(), float(factor)))
        except ValueError:
            pattern = ''
        if not pattern:
            raise FieldError('layerwise_rates', text, "write PATTERN=FACTOR, as in 'embedding/*=0.1,block_3/*=2'")
        if not 0 < rates[-1][1] < math.inf:
            raise FieldError('layerwise_rates', text, f'{factor} must be a positive number; to train a part not at all, name it '
                             'in optimizer.freeze')
    return rates
