r"""A character GPT with 10.7M parameters at nanoGPT's GPU settings.

    python launch.py --config=experiments/language/char_gpt_gpu.py --workdir=runs/char_gpt_gpu \
        --config.data.source=file:PATH/tiny_shakespeare/input.txt

6 layers, 6 heads, width 384, block 256, batch 64, 5,000 steps, dropout 0.2, matmuls in bfloat16: 10,745,088 parameters for
Shakespeare's 65 characters (the run's first line says so). nanoGPT's README states a held-out loss of 1.4697, in about 3
minutes on an A100.

Not measured: this needs a GPU, and none was at hand. What was checked without one: the same training step with bfloat16
and dropout, at a smaller size, trains on the CPU and is lowered for CUDA and TPU (tests/train/test_platforms.py).
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='gpt')
    config.data.update(batch_size=64, sequence_length=256)
    config.model.update(depth=6, heads=6, width=384, dropout=0.2, embedding_dropout=0.2, attention_dropout=0.2, dtype='bfloat16')
    config.train.update(steps=5000, eval_every=250, save_every=250)
    config.optimizer.update(name='adamw', learning_rate=1e-3, schedule='cosine', warmup_steps=100, final_rate=0.1,
                            b2=0.99, weight_decay=0.1, clip_norm=1.0)
    config.decode.update(max_new_tokens=1000)
    return config
