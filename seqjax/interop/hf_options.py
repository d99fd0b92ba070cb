"""The keys of a config.json of Hugging Face, and the fields of our models: how one is read from the other, key by key."""

import dataclasses

from seqjax import models

ACTIVATIONS = {'gelu': 'gelu', 'gelu_python': 'gelu', 'gelu_new': 'gelu_tanh', 'gelu_pytorch_tanh': 'gelu_tanh',
               'gelu_python_tanh': 'gelu_tanh', 'gelu_fast': 'gelu_tanh', 'gelu_accurate': 'gelu_tanh', 'relu': 'relu',
               'silu': 'silu', 'swish': 'silu', 'quick_gelu': 'quick_gelu'}
THEIR_ACTIVATION = {'gelu': 'gelu', 'gelu_tanh': 'gelu_new', 'relu': 'relu', 'silu': 'silu', 'quick_gelu': 'quick_gelu'}

# Fields that change nothing of what a trained network computes.
HARMLESS = ('dropout', 'embedding_dropout', 'attention_dropout', 'init_scale', 'scan_layers', 'remat', 'dtype', 'parent', 'name',
            'stochastic_depth', 'zero_init', 'momentum', 'position_scale')


class Options:
    """The keys of a config. One that makes no sense is a problem, and counts as its default so that the rest can be looked at."""

    def __init__(self, config, problems, place=''):
        self.config, self.problems, self.place = config, problems, place  # place: of the object in config.json
        self.has_sizes = True  # False: what shapes weights should have is not known

    def get(self, key, default=None):
        value = self.config.get(key)
        return default if value is None else value

    def size(self, key, default):
        value = self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.has_sizes = False
            return self.refuse(key, value, 'must be a number of at least 1', default)
        return value

    def sizes(self, key, default):
        value = self.get(key, default)
        good = isinstance(value, (list, tuple)) and value and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in value)
        if not good:
            self.has_sizes = False
            return self.refuse(key, value, 'must be numbers of at least 1', tuple(default))
        return tuple(value)

    def number(self, key, default):
        value = self.get(key, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return self.refuse(key, value, 'must be a number', default)
        return float(value)

    def flag(self, key, default):
        value = self.get(key, default)
        return value if isinstance(value, bool) else self.refuse(key, value, 'must be true or false', default)

    def activation(self, key, default):
        return self.named(key, self.get(key, default), default)

    def named(self, key, name, default):
        """Our name of an activation."""
        if not isinstance(name, str) or name not in ACTIVATIONS:
            name = self.refuse(key, name, f'is no activation here; choose one of: {", ".join(sorted(ACTIVATIONS))}', default)
        return ACTIVATIONS[name]

    def only(self, key, value, otherwise):
        """A key that may have but one value."""
        if self.get(key, value) != value:
            self.refuse(key, self.get(key), otherwise)

    def refuse(self, key, value, reason, default=None):
        self.problems.append(f'config.json: {self.place}{key}={value!r}: {reason}')
        return default

    def fields(self, table):
        """{our field: value} of the keys in a table."""
        found = {}
        for key, (field, default) in table.items():
            default = default(found) if callable(default) else default
            found[field] = READ[type(default)](self, key, default)
        return found


READ = {int: Options.size, float: Options.number, bool: Options.flag, str: Options.activation}


def facts(model):
    """{field: value} of a model, with what 0 stands for written out."""
    found = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    D, heads, text = model.width, found.get('heads', 1), found.get('text_width') or model.width
    usual = dict(feed_forward=4 * D, head_width=D // heads, kv_heads=heads, rank=-(-D // 16), init_scale=0.02,
                 decoder_depth=model.depth, target_vocabulary=found.get('vocabulary'), text_width=D, text_depth=model.depth,
                 text_heads=heads, text_feed_forward=4 * text, output_scale=D ** -0.5 if found.get('tie_embeddings') else 1.0)
    if isinstance(model, models.ResNet):
        usual |= dict(block=model.unit_kind, stages=model.units_of_stages, channels=tuple(channels for _, channels in model.units))
    found |= {field: found[field] or value for field, value in usual.items() if field in found}
    return dict(found, bias=True) if isinstance(model, models.GPT) else found  # what is not there is zero


def keys(model, table):
    """{their key: value} of the fields in a table."""
    found = facts(model)
    return {key: THEIR_ACTIVATION[found[field]] if field == 'activation' else found[field] for key, (field, _) in table.items()}
