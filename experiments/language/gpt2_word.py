r"""GPT-2 over pieces of words: the published network, narrow and short, on byte pairs of Python's own source (Radford et al. 2019).

What it shows: the same network as char_gpt.py, with the biases and the GELU of GPT-2, when a token is a piece of a word. Losses per token
cannot be compared between the two; bits per character can, and both runs log them.

    python launch.py --config=experiments/language/gpt2_word.py --workdir=runs/gpt2_word
    python launch.py --workdir=runs/gpt2_word --mode=generate

Data: the source of Python's standard library as 2,048 byte pairs, learned from its training part.

Measured with seed 0 on one of 2 CPU cores, the other doing other work (Python 3.11, jax 0.10.2): 4.408 nats per token, which are 2.381 bits per
character, over the first 40 batches of held-out text; 1,063,680 parameters, 1.9 minutes.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='gpt')
    config.data.update(tokenizer='bpe', vocabulary=2048, batch_size=12, sequence_length=64)
    config.model.update(width=128, depth=4, heads=4, bias=True, activation='gelu_tanh')
    config.train.update(steps=1000, eval_every=500, eval_batches=40, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.1,
                            b2=0.99, weight_decay=0.1, clip_norm=1.0)
    config.decode.prompt = 'def '
    return config
