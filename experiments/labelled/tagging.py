r"""A label for every step: a bidirectional LSTM, with and without a random field over its labels.

What it shows: many to many, in step. The characters of Python's source get the kind of token that they belong to; words get
their part of speech, from their row of a table and from their spelling (Ma & Hovy 2016; Lample et al. 2016). Several sequences share
a row, so that hardly a position is padding.

    python launch.py --config=experiments/labelled/tagging.py --workdir=runs/tagging             # both variants, and comparison.png
    python launch.py --config=experiments/labelled/tagging.py --workdir=runs/ewt \
        --config.data.source='file:PATH/en_ewt-ud-{train,dev,test}.conllu.gz' --config.data.tokenizer=word \
        --config.data.lowercase=true --config.data.characters_per_word=16 --config.model.character_encoder=conv \
        --config.model.character_width=64 --config.model.word_dropout=0.1 --config.train.steps=1200
    echo 'They googled the facts .' | python launch.py --workdir=runs/ewt/crf --mode=predict --input=-

Data: Python's standard library, labelled by its own tokenizer; or Universal Dependencies English EWT, 17 parts of speech.

Measured on 2 CPU cores that did other work too (Python 3.11, jax 0.10.2), on the test part, mean and standard deviation over seeds
0, 1 and 2 (Python's tokens: seed 0):

| data | variant | accuracy | macro-F1 | most frequent label of each token | minutes |
|---|---|---|---|---|---|
| Python's tokens (default) | softmax | 0.9959 | 0.991 | 0.690 | 2.5 |
| Python's tokens (default) | crf | 0.9948 | 0.990 | 0.690 | 2.6 |
| EWT | softmax | 0.9497 +- 0.0003 | 0.900 +- 0.002 | 0.862 | 3.3 to 5.8 |
| EWT | crf | 0.9503 +- 0.0009 | 0.904 +- 0.001 | 0.862 | 4.2 to 5.0 |
"""

from seqjax import config as configs

VARIANTS = ('softmax', 'crf')


def get_config(variant='softmax'):
    config = configs.defaults(model='reader', task='tagging', source='python_tokens')
    config.data.update(tokenizer='char', vocabulary=20000, batching='pack', batch_size=8)
    config.model.update(encoder='lstm', width=150, depth=1, bidirectional=True, embedding=100, dropout=0.4, crf=variant == 'crf')
    config.train.update(steps=800, eval_every=200, save_every=400)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
