"""A character GPT with 10.7M parameters at nanoGPT's GPU settings.

    python launch.py --config=experiments/char_gpt_gpu.py --workdir=runs/char_gpt_gpu \
        --config.data.source=file:PATH/tiny_shakespeare/input.txt
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='gpt')
    config.data.update(batch_size=64, sequence_length=256)
    config.model.update(depth=6, heads=6, width=384, dropout=0.2, dtype='bfloat16')
    config.train.update(steps=5000, eval_every=250, save_every=250)
    config.optimizer.update(name='adamw', learning_rate=1e-3, schedule='cosine', warmup_steps=100, final_rate=0.1,
                            b2=0.99, weight_decay=0.1, clip_norm=1.0)
    config.decode.update(max_new_tokens=1000)
    return config
