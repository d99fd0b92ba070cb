"""A training loop of one's own: no evaluation, no checkpoint, the loss of every step.

    python launch.py --config=tests/extending/plain_loop.py --workdir=runs/plain
"""

from seqjax import config as configs
from seqjax import train


@train.LOOPS.register('plain')
def plain_loop(experiment):
    config, strategy = experiment.config, experiment.strategy
    step, state = experiment.train_step(config), strategy.enter(experiment.initial_state(config))
    losses = []
    for number in range(config.train.steps):
        state, facts = step(state, strategy.place(experiment.training[number]))
        losses.append(float(strategy.read(facts)['sums'].means()['loss']))
    return dict(losses=losses)


def get_config():
    config = configs.defaults('recurrent')
    config.data.update(batch_size=4, sequence_length=16)
    config.model.update(width=8)
    config.train.update(steps=3, eval_batches=1, loop='plain')
    config.optimizer.update(warmup_steps=0)
    return config
