r"""Positive or negative? A bidirectional LSTM that weighs its words by attention.

What it shows: words as vectors, read in both directions; a learned query decides which words count (Lin et al. 2017). Nothing is
pretrained.

    python launch.py --config=experiments/labelled/sentiment.py --workdir=runs/sentiment
    python launch.py --config=experiments/labelled/sentiment.py --workdir=runs/sst2 \
        --config.data.source='file:PATH/sst2/{train,dev,test}.tsv'
    echo 'not bad at all' | python launch.py --workdir=runs/sst2 --mode=predict --input=-

Data: sentences of a small grammar of opinions, where negation and contrast turn words over; or the Stanford Sentiment Treebank,
whole sentences only (6,920 for training).

Measured on 2 CPU cores that did other work too (Python 3.11, jax 0.10.2), accuracy on the test part, mean and standard
deviation over seeds 0, 1 and 2:

| data | test accuracy | naive Bayes on words | most frequent class | minutes |
|---|---|---|---|---|
| reviews (default), seed 0 | 0.9985 | 0.560 | 0.489 | 2.3 |
| SST-2 | 0.817 +- 0.003 | 0.819 | 0.499 | 3.2 to 5.1 |

On SST-2 counting words does as well; 6,920 sentences may be too few to learn from scratch what their order adds. On the grammar, where
counting is little better than guessing, it is the other way round.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='reader', task='classification', source='reviews')
    config.data.update(tokenizer='word', vocabulary=20000, lowercase=True, batch_size=32, num_buckets=4)
    config.model.update(encoder='lstm', width=128, depth=1, bidirectional=True, embedding=128, pooling='attention',
                        dropout=0.5, word_dropout=0.2)
    config.train.update(steps=1300, eval_every=325, save_every=650)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=5e-2, clip_norm=1.0)
    return config
