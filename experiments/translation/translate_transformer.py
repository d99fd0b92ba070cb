r"""German to English by a Transformer (Vaswani et al. 2017), small enough for two CPU cores.

What it shows: a Transformer of 5 million parameters on the 29,000 pairs that translate_rnn.py learns from. After seven passes over them
it is where the recurrent network with attention is after four; every step of it is one product for all words of a sentence.

    python launch.py --config=experiments/translation/translate_transformer.py --workdir=runs/de_en_transformer \
        --config.data.source='file:PATH/multi30k/{train,val,test_2016_flickr}.{de,en}.gz'
    python launch.py --workdir=runs/de_en_transformer --mode=average --last=5
    python launch.py --workdir=runs/de_en_transformer/average_of_5 --mode=eval --config.data.split=test

Data: Multi30k (Elliott et al. 2016), in small letters, 4,000 byte pairs for both languages together. Without a source: names of CLDR.

Measured with seed 0 on one of 2 CPU cores, the other doing other work (Python 3.11, jax 0.10.2), on test_2016_flickr, lower case, with a
beam of 5: 30 minutes for training, all evaluations and the test.

| checkpoint | BLEU | tokenised BLEU | chrF | parameters |
|---|---|---|---|---|
| the last | 37.8 | 37.9 | 56.9 | 4,979,712 |
| the mean of the last 5 | 37.4 | 37.6 | 56.5 | |

On 2 cores of another CPU (AMD EPYC, Zen 5), which rounds sums otherwise, the same commands took 10 minutes: 38.4, 38.5 and 57.5, and the
mean of the last 5 had 37.9, 38.0 and 57.1.

BLEU: sacrebleu, nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0 of texts in small letters; tokenised: tok:none, of words and
punctuation put apart. Blocks are pre-norm, which needs no long warm-up (Xiong et al. 2020). The settings were not searched for.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='transformer', task='translation', source='cldr')
    config.data.update(tokenizer='bpe', vocabulary=4000, shared_vocabulary=True, lowercase=True, batch_size=16,
                       batch_tokens=4096, num_buckets=6, max_length=50)
    config.model.update(width=256, depth=3, heads=4, feed_forward=512, norm_position='pre', dropout=0.1, embedding_dropout=0.1)
    config.train.update(steps=1700, eval_every=425, save_every=100, label_smoothing=0.1, keep_latest=5, decode_rows=200)
    config.decode.num_beams = 5
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=200, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0, b2=0.98)
    return config
