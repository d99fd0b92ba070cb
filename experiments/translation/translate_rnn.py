r"""German to English by a recurrent encoder-decoder: five ways for a source to reach the decoder.

What it shows: the ladder from the last state of the encoder (Sutskever et al. 2014) to a mean that is weighted anew for every word
(Bahdanau et al. 2015), and that what is lost without attention is lost on long sentences.

    python launch.py --config=experiments/translation/translate_rnn.py --workdir=runs/ladder                  # all five, on names of CLDR
    python launch.py --config=experiments/translation/translate_rnn.py:attention --workdir=runs/de_en \
        --config.data.source='file:PATH/multi30k/{train,val,test_2016_flickr}.{de,en}.gz'
    python launch.py --workdir=runs/de_en --mode=average --last=5

Data: Multi30k (Elliott et al. 2016), 29,000 descriptions of images, in small letters, 4,000 byte pairs for each language.

Measured with seed 0 on one of 2 CPU cores, the other busy (Python 3.11, jax 0.10.2), on test_2016_flickr, lower case, with a beam of 5:

| variant | BLEU | tokenised BLEU | chrF | parameters | minutes |
|---|---|---|---|---|---|
| last | 15.5 | 15.6 | 32.8 | 3,867,556 | 15.6 |
| mean_each | 26.7 | 26.8 | 45.2 | 5,048,740 | 18.9 |
| attention | 38.2 | 38.3 | 57.2 | 5,245,860 | 17.7 |
| attention, the mean of the last 5 checkpoints | 38.4 | 38.6 | 57.0 | | |

BLEU: sacrebleu, nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0 of texts in small letters; tokenised: tok:none, of words and
punctuation put apart. The curves by length are docs/images/multi30k_by_length.png. `last` reads in one direction, as its first state has to
be of the decoder's size. The settings were picked in one earlier try of `attention`, whose validation scores were seen.
"""

from seqjax import config as configs

VARIANTS = ('last', 'mapped', 'mean', 'mean_each', 'attention')


def get_config(variant='attention'):
    config = configs.defaults(model='seq2seq', task='translation', source='cldr')
    config.data.update(tokenizer='bpe', vocabulary=4000, lowercase=True, batch_size=64, num_buckets=6, max_length=50)
    config.model.update(cell='gru', width=256, embedding=256, bidirectional=variant != 'last', context=variant, dropout=0.3)
    config.train.update(steps=1800, eval_every=450, save_every=150, label_smoothing=0.1, keep_latest=5, decode_rows=200)
    config.decode.num_beams = 5
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
