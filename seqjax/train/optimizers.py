"""Optimizers by their optax name, with clipping, decay masks and parts with a rate of their own.

Parts of a model are named by glob patterns over parameter paths: '*/block_0/*', '*bias', 'embedding/table'. Parts that are
not trained never get here: see `freezing`.
"""

import fnmatch
import inspect
import math

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
_TUNABLE = ('b1', 'b2', 'eps', 'momentum')


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


def make_optimizer(options, schedule):
    """The optax transformation that `config.optimizer` describes, for a learning rate `schedule`.

    Order: clip each value, clip the global norm, the named optimizer, the factors of parts with a rate of their own.
    """
    chain = []
    if options.clip_value:
        chain.append(optax.clip(options.clip_value))
    if options.clip_norm:
        chain.append(optax.clip_by_global_norm(options.clip_norm))
    chain.append(_named(options, schedule))
    if options.rates:
        chain.append(_scale_parts(_parse_rates(options.rates)))
    return optax.chain(*chain)


def check_rates(options, params):
    """Every pattern of `rates` must name a parameter, or the user has misspelt one."""
    paths = parameter_paths(params)
    for pattern, _ in _parse_rates(options.rates):
        if not matches_any(paths, pattern):
            raise FieldError('optimizer.rates', pattern, f'matches no parameter; there are: {", ".join(paths)}')


def _named(options, schedule):
    offered = available()
    if options.name not in offered:
        raise FieldError('optimizer.name', options.name, f'no such optimizer; {suggestion(options.name, offered)}')
    function = offered[options.name]
    accepted = inspect.signature(function).parameters
    chosen = {name: options[name] for name in _TUNABLE if options[name] is not None}
    for name in chosen:
        if name not in accepted:
            raise FieldError(f'optimizer.{name}', chosen[name], f"'{options.name}' does not take it; set it to none")
    if options.weight_decay:
        if 'weight_decay' not in accepted:
            raise FieldError('optimizer.weight_decay', options.weight_decay,
                             f"'{options.name}' has no weight decay; set it to 0, or use 'adamw'")
        chosen['weight_decay'] = options.weight_decay
        mask = next((name for name in ('mask', 'weight_decay_mask') if name in accepted), None)
        spared = parse(options.no_decay)
        if mask:
            chosen[mask] = lambda params: map_paths(lambda path, _: not matches(path, spared), params)
        elif spared:
            raise FieldError('optimizer.no_decay', options.no_decay, f"'{options.name}' decays all parameters; set it to ''")
    elif 'weight_decay' in accepted:
        chosen['weight_decay'] = 0.0  # what the config says, not what optax would choose
    return function(learning_rate=schedule, **chosen)


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
            raise FieldError('optimizer.rates', text, "write PATTERN=FACTOR, as in 'embedding/*=0.1,block_3/*=2'")
        if not 0 < rates[-1][1] < math.inf:
            raise FieldError('optimizer.rates', text, f'{factor} must be a positive number; to train a part not at all, name it '
                             'in optimizer.freeze')
    return rates
