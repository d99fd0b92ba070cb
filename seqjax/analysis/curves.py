"""Loss curves of a run."""

import math

from seqjax.analysis import figures


def plot_loss(lines, path, unit='nats per token'):
    """Training and held-out loss against the step, to a PNG. lines: the dicts of metrics.jsonl; unit: what the loss is."""
    training, held_out = points_of(lines, 'train/loss'), points_of(lines, 'eval/loss')
    figure = figures.new_figure(7, 4)
    axes = figures.tidy(figure.subplots())
    if training:
        steps, losses = zip(*training)
        axes.plot(steps, losses, color='tab:blue', alpha=0.25, linewidth=0.8)
        axes.plot(steps, smooth(losses, half_life=max(1, len(losses) / 100)), color='tab:blue', label='training (smoothed)')
    if held_out:
        axes.plot(*zip(*held_out), color='tab:orange', marker='o', markersize=4, label='held out')
        step, loss = held_out[-1]
        axes.annotate(f'{loss:.3f}', (step, loss), xytext=(-4, 8), textcoords='offset points', ha='right')
    axes.set(xlabel='step', ylabel=f'loss ({unit})')
    figures.whole_numbers(axes.xaxis)
    if training or held_out:
        axes.legend(frameon=False)
    figures.save(figure, path)


def points_of(lines, name):
    """[(step, value)] of a number that lines of metrics.jsonl may have."""
    return [(line['step'], line[name]) for line in lines if line.get(name) is not None]


def smooth(values, half_life):
    """The exponential moving average of `values`, corrected for its start."""
    decay = math.exp(-math.log(2) / half_life)
    average, weight, smoothed = 0.0, 0.0, []
    for value in values:
        average, weight = decay * average + (1 - decay) * value, decay * weight + 1 - decay
        smoothed.append(average / weight)
    return smoothed
