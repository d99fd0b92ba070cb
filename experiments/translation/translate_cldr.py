r"""One model between English and 23 languages: a tag says which one is wanted.

What it shows: many languages in one model (Johnson et al. 2017), character by character, for things that it has never seen a name of.
What can be told from the spelling it tells, also from Cyrillic and Arabic letters: 'неаполитански' -> 'Neapolitan', 'dolar barbadoski' ->
'Barbadian Dollar'. What cannot, it makes up: 'chińskie' -> 'Chinish', where the script is called Han.

    python launch.py --config=experiments/translation/translate_cldr.py --workdir=runs/cldr
    echo '<en> dolar barbadoski' | python launch.py --workdir=runs/cldr --mode=generate --input=- --explain

Data: names of CLDR (`cldr`), 50,657 pairs, English into 23 languages and back; the things that are tested were not seen in any language.

Measured with seed 0 on one CPU core that did other work too (Python 3.11, jax 0.10.2), with a beam of 5, on the test part: exact match
13.9 %, chrF 39.8 (sacrebleu nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0), BLEU 8.5; 1,960,663 parameters, 21.7 minutes.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='seq2seq', task='translation', source='cldr')
    config.data.update(tokenizer='char', batch_size=64, num_buckets=5, max_length=40)
    config.model.update(cell='gru', width=256, embedding=96, bidirectional=True, context='attention', dropout=0.2)
    config.train.update(steps=2000, eval_every=500, save_every=500, label_smoothing=0.1, decode_rows=200)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    config.decode.num_beams = 5
    return config
