r"""How far a gradient reaches back in every recurrent cell, before and after it has learned the adding problem.

What it shows: the answer to the adding problem depends on a number up to 200 steps back. The picture has, for every cell,
the norm of ds_T / ds_{T-k} against the lag k.

    python launch.py --config=experiments/recurrence/gradient_flow.py --workdir=runs/gradient_flow    # one step each: as they start
    python launch.py --workdir=runs/gradient_flow --mode=xray                              # runs/gradient_flow/xray.png

Measured with seed 0, width 64, on 2 CPU cores that did other work too (Python 3.11, jax 0.10.2): the first command takes
1.2 minutes, the second 4. As they start, gradients reach 200 steps back in the LRU (10^-0.8) and the layer-normalised LSTM, and
in no other: LSTM 10^-4, orthogonal 10^-7 (the matrix shrinks nothing, the threshold of modrelu does), Elman 10^-9, GRU
10^-25, minGRU 10^-55.

What sets a gated cell apart is what training makes of it. Of three that are trained for 1,500 steps,

    python launch.py --config=experiments/recurrence/gradient_flow.py:gru --workdir=runs/trained/gru --config.train.steps=1500 \
        --config.optimizer.learning_rate=2e-3 --config.optimizer.warmup_steps=100 --config.train.xray_every=100

| cell | horizon at step 100 | 500 | 1,000 | 1,500 | held-out error at the end (32 rows) |
|---|---|---|---|---|---|
| Elman | 15 | 15 | 23 | 23 | 0.204 |
| LSTM | 16 | 12 | 15 | 88 | 0.199 |
| GRU | 30 | 127 | 130 | 200 | 0.0027 |

the GRU opens its gates until the gradient of the loss reaches all 200 steps (xray/recurrent/layer_0/horizon in
metrics.jsonl), and learns; the LSTM begins to; Elman's network has no gate to open. Data: generated, no download.
"""

from seqjax import config as configs

VARIANTS = ('elman', 'relu', 'orthogonal', 'lstm', 'peephole_lstm', 'coupled_lstm', 'layer_norm_lstm', 'projected_lstm',
            'gru', 'gru_before', 'min_gru', 'min_lstm', 'lru')


def get_config(variant='elman'):
    config = configs.defaults(model='reader', source='adding')
    config.data.update(batch_size=32, sequence_length=200, held_out_rows=32)
    config.model.update(encoder=variant, width=64, depth=1)
    config.train.update(steps=1, eval_every=0, save_every=0)
    config.optimizer.update(name='adamw', learning_rate=1e-6, schedule='constant', warmup_steps=0)
    return config
