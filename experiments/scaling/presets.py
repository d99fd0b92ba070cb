r"""The published sizes, from the Transformer of 2017 to Llama, Mamba and RWKV, with the settings that their papers trained them with.

What it shows: how large they are. Without a byte of data or parameters:

    python launch.py --config=experiments/scaling/presets.py:gpt3_175b --mode=describe
    python launch.py --config=experiments/scaling/presets.py:llama_65b --mode=describe --config.parallel.fsdp=64 --config.parallel.tensor=8

Training needs accelerators, and a text that is worth it; config.vocabulary=0 takes the vocabulary of that text, byte pairs of at
most the published number, for what is published is only how many tokens there were:

    python launch.py --config=experiments/scaling/presets.py:gpt2_small --workdir=runs/gpt2 --config.vocabulary=0 \
        --config.data.source=file:PATH --config.train.gradient_accumulation_steps=8

Name one: without a name the command would train all of them, one after another.

The mesh. Data parallel is the default, and does for all whose parameters, gradients and moments (16 bytes a parameter in float32) fit on
one device: up to gpt2_xl, gpt3_xl and t5_large with 40 GB or more. Larger ones are spread with config.parallel.fsdp=N, the number of
devices that share one copy, and from about 13B on also with config.parallel.tensor=8 inside a machine. Layers are scanned, so that one
block is compiled for all, and from 1B parameters on computed again in the backward pass (config.model.remat). Matmuls are in bfloat16.

Settings: Vaswani et al. 2017, section 5; Devlin et al. 2019, appendix A.2; Brown et al. 2020, table 2.1 and appendix B, also for GPT-2,
whose paper gives none; Raffel et al. 2020, section 3.1; Touvron et al. 2023, table 2; Gu & Dao 2023, appendix E.2, whose rates are five
times those of GPT-3; Peng et al. 2023. Steps are those of the papers' tokens in batches of the papers' size, of RWKV the
smaller of its two; its rates fall exponentially there, and as a cosine here. What is not here: warm-up of the batch size and GPT-3's
sparse layers; T5's Adafactor is optax's.

Not measured: no accelerator was at hand. Parameter counts are tested (tests/models/test_presets.py).
"""

from seqjax import config as configs
from seqjax import models

VARIANTS = (
    'transformer_base', 'transformer_big', 'bert_base', 'bert_large', 'gpt2_small', 'gpt2_medium', 'gpt2_large', 'gpt2_xl',
    'gpt3_small', 'gpt3_medium', 'gpt3_large', 'gpt3_xl', 'gpt3_2.7b', 'gpt3_6.7b', 'gpt3_13b', 'gpt3_175b',
    't5_small', 't5_base', 't5_large', 't5_3b', 't5_11b', 't5_1.1_small', 't5_1.1_base', 't5_1.1_large', 't5_1.1_xl', 't5_1.1_xxl',
    'llama_7b', 'llama_13b', 'llama_33b', 'llama_65b', 'llama2_7b', 'llama2_13b', 'llama2_70b', 'llama3_8b', 'llama3_70b',
    'mamba_130m', 'mamba_370m', 'mamba_790m', 'mamba_1.4b', 'mamba_2.8b',
    'rwkv4_169m', 'rwkv4_430m', 'rwkv4_1b5', 'rwkv4_3b', 'rwkv4_7b', 'rwkv4_14b')

# Rows of a batch and the highest learning rate. 256 rows of 2,048 are the papers' half a million tokens.
RATES = {
    'gpt2_small': (512, 6e-4), 'gpt2_medium': (512, 3e-4), 'gpt2_large': (512, 2.5e-4), 'gpt2_xl': (1024, 2e-4),
    'gpt3_small': (256, 6e-4), 'gpt3_medium': (256, 3e-4), 'gpt3_large': (256, 2.5e-4), 'gpt3_xl': (512, 2e-4),
    'gpt3_2.7b': (512, 1.6e-4), 'gpt3_6.7b': (1024, 1.2e-4), 'gpt3_13b': (1024, 1e-4), 'gpt3_175b': (1600, 6e-5),
    'llama_7b': (2048, 3e-4), 'llama_13b': (2048, 3e-4), 'llama_33b': (2048, 1.5e-4), 'llama_65b': (2048, 1.5e-4),
    'llama2_7b': (1024, 3e-4), 'llama2_13b': (1024, 3e-4), 'llama2_70b': (1024, 1.5e-4),
    'llama3_8b': (512, 3e-4), 'llama3_70b': (512, 1.5e-4),
    'mamba_130m': (256, 3e-3), 'mamba_370m': (256, 1.5e-3), 'mamba_790m': (256, 1.25e-3), 'mamba_1.4b': (512, 1e-3),
    'mamba_2.8b': (512, 8e-4), 'rwkv4_169m': (128, 6e-4), 'rwkv4_430m': (128, 4e-4), 'rwkv4_1b5': (128, 3e-4),
    'rwkv4_3b': (128, 1.5e-4), 'rwkv4_7b': (128, 1.5e-4), 'rwkv4_14b': (128, 1e-4)}
# Tokens that were trained on, in billions.
TOKENS = {'gpt2': 300, 'gpt3': 300, 'llama_7b': 1000, 'llama_13b': 1000, 'llama_33b': 1400, 'llama_65b': 1400, 'llama2': 2000,
          'llama3': 15000, 'mamba': 300, 'rwkv4': 330}
LARGE = ('gpt2_xl', 'gpt3_xl', 'gpt3_2.7b', 'gpt3_6.7b', 'gpt3_13b', 'gpt3_175b', 't5_3b', 't5_11b', 't5_1.1_xl', 't5_1.1_xxl',
         'mamba_1.4b', 'mamba_2.8b', 'rwkv4_1b5', 'rwkv4_3b', 'rwkv4_7b', 'rwkv4_14b')
# Of models that read rows of any length, the length of those they were trained on.
ROW = {'mamba': 2048, 'rwkv': 1024}

TASKS = {'bert': ('masked_lm', 'python'), 'transformer': ('translation', 'cldr'), 't5': ('span_corruption', 'python')}


def get_config(variant='gpt2_small'):
    preset = models.PRESETS[variant]
    task, source = TASKS.get(preset.model, ('language_model', 'python'))
    config = configs.defaults(model=preset.model, task=task, source=source)
    config.vocabulary = preset.vocabulary
    config.data.update(tokenizer='bpe', vocabulary=preset.vocabulary)
    config.model.update(**preset.fields, dtype='bfloat16', scan_layers=True, remat=variant in LARGE or preset.model == 'llama')
    config.train.update(eval_every=2000, eval_batches=100, save_every=2000)
    {'gpt': _language_model, 'llama': _language_model, 'mamba': _mamba, 'rwkv': _rwkv, 'bert': _bert, 'transformer': _transformer,
     't5': _t5}[preset.model](config, variant, preset)
    return config


def _language_model(config, variant, preset):
    (rows, rate), T = RATES[variant], preset.context_length or ROW[preset.model]
    billions = TOKENS.get(variant) or TOKENS[variant.partition('_')[0]]
    config.data.update(sequence_length=T, batch_size=rows)
    config.train.steps = round(billions * 1e9 / (rows * T))
    warmup = 2000 if preset.model == 'llama' else round(375e6 / (rows * T))
    config.optimizer.update(name='adamw', learning_rate=rate, schedule='cosine', warmup_steps=warmup, final_rate=0.1, b1=0.9,
                            b2=0.95, eps=1e-8, weight_decay=0.1, clip_norm=1.0)


def _mamba(config, variant, preset):
    _language_model(config, variant, preset)
    config.optimizer.update(final_rate=1e-5 / RATES[variant][1], no_decay='*bias,*scale,*/A_log,*/D')


def _rwkv(config, variant, preset):
    _language_model(config, variant, preset)
    last = 7e-6 if variant == 'rwkv4_14b' else 1e-5
    config.optimizer.update(final_rate=last / RATES[variant][1], b2=0.99, weight_decay=0.0)


def _bert(config, variant, preset):
    del variant
    config.data.update(sequence_length=preset.context_length, batch_size=256, mask_probability=0.15, next_sentence=True)
    config.train.steps = 1_000_000
    config.optimizer.update(name='adamw', learning_rate=1e-4, schedule='linear', warmup_steps=10_000, final_rate=0.0, b1=0.9,
                            b2=0.999, eps=1e-6, weight_decay=0.01, clip_norm=1.0)


def _transformer(config, variant, preset):
    del preset
    config.data.update(shared_vocabulary=True, batch_size=8, batch_tokens=50_000, max_length=256)
    config.train.update(steps=300_000 if variant == 'transformer_big' else 100_000, label_smoothing=0.1)
    config.optimizer.update(name='adam', learning_rate=1.0, schedule='noam', warmup_steps=4000, b1=0.9, b2=0.98, eps=1e-9,
                            clip_norm=0.0)
    config.decode.update(num_beams=4, length_penalty=0.6)


def _t5(config, variant, preset):
    del variant
    config.data.update(shared_vocabulary=True, sequence_length=512, batch_size=128, mask_probability=0.15, span_length=3.0)
    config.train.steps = 2 ** 19
    # 1 / sqrt(step) from step 10,000 on, as noam has it but for a factor D^-0.5; before that it rises, where T5's stays the same.
    config.optimizer.update(name='adafactor', learning_rate=preset.fields['width'] ** 0.5, schedule='noam', warmup_steps=10_000,
                            clip_norm=0.0)
