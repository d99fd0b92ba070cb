"""Errors that a user can act on: each names the thing, its value and the way out."""

import difflib


class UserError(Exception):
    """A mistake in what was asked for. The launcher prints its sentence, without a traceback."""


class FieldError(UserError, ValueError):
    """A field of a model or a config with an impossible value.

    `FieldError('heads', 5, 'must divide width=128')` reads "heads=5: must divide width=128".
    """

    def __init__(self, field, value, reason):
        super().__init__(f'{field}={value!r}: {reason}')
        self.field, self.value, self.reason = field, value, reason


def suggestion(word, known):
    """'did you mean X?' when a known name is close, else the list of all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f'choose one of: {", ".join(known)}'


def check_at_least(holder, least, *fields):
    """Fields of an object must not be smaller."""
    for field in fields:
        if getattr(holder, field) < least:
            raise FieldError(field, getattr(holder, field), f'must be at least {least}')


def check_rates(holder, *fields):
    """Fields of an object must be probabilities that are less than 1."""
    for field in fields:
        if not 0 <= getattr(holder, field) < 1:
            raise FieldError(field, getattr(holder, field), 'must be at least 0 and less than 1')


def refuse_unused(model, field, unused, reason):
    """A field of a dataclass that nothing reads must have its default."""
    value, default = getattr(model, field), type(model).__dataclass_fields__[field].default
    if unused and value != default:
        raise FieldError(field, value, f'{reason}; leave it at {default!r}')


def with_prefix(prefix, function):
    """Runs function(); a FieldError in it names its field with `prefix` in front, as the user would type it."""
    try:
        return function()
    except FieldError as error:
        field = error.field if error.field.startswith(prefix) else f'{prefix}.{error.field}'
        raise FieldError(field, error.value, error.reason) from None
