r"""Does a training step on images wait for them? Files that are decoded by every batch, a cache of decoded pixels, and an array in memory.

    python benchmarks/images.py [--images=2000] [--side=64] [--batch=64] [--steps=30] [--folder=DIR]

Random JPEG files of `side` x `side` pixels in class folders are read as a run reads them: batches by `data.prefetched`, in
threads. The first line says how long it takes until the first batch is
there, the first time and again; with --steps=0 that is all. `images/s` is what the loader makes alone. `wait` is the part of
a step's time in which it waits for its batch, measured around `next`: with the real step of a small ResNet on the same cores,
and with a step of the same time that leaves them alone, as a step on an accelerator does. The first steps are not counted.
"""

import argparse
import json
import pathlib
import resource
import statistics
import tempfile
import time

from in_turn import machine
import jax
import numpy as np
from PIL import Image

from seqjax import config as configs
from seqjax import data, train
from seqjax.data.images.arrays import ImageArray
from seqjax.data.labelled import load_labelled
from seqjax.data.options import DataOptions
from seqjax.fields import whole

WARM_UP = 5


def write(folder, count, side):
    rng = np.random.default_rng(0)
    for i in range(count):
        path = folder / f'class_{i % 10}' / f'{i:06}.jpg'
        path.parent.mkdir(parents=True, exist_ok=True)
        rough = rng.integers(256, size=(side // 8 + 1, side // 8 + 1, 3), dtype=np.uint8)  # noise alone would compress badly
        Image.fromarray(rough).resize((side, side), Image.Resampling.BILINEAR).save(path, quality=90)


def sets(config):
    """{name: a set of batches}."""
    files = data.load(config.data, 'classification')
    with config.unlocked():
        config.data.cache_images = True
    cached = data.load(config.data, 'classification')
    of = lambda rows: ImageArray(np.stack([rows.records[i].inputs for i in range(len(rows))]), list(rows.records.targets))
    parts = data.Examples(*(of(files.rows[split]) for split in ('train', 'validation')), [], 'in memory')
    return dict(files=files, cached=cached, memory=load_labelled(parts, 'classification', whole(DataOptions, config.data)))


def waits(batches, step, steps):
    """(seconds of a step, seconds of it that it waited for its batch), medians and the longest wait."""
    times, waited = [], []
    for _ in range(WARM_UP + steps):
        start = time.perf_counter()
        batch = next(batches)
        waited.append(time.perf_counter() - start)
        step(batch)
        times.append(time.perf_counter() - start)
    return statistics.median(times[WARM_UP:]), statistics.mean(waited[WARM_UP:]), max(waited[WARM_UP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--images', type=int, default=2000)
    parser.add_argument('--side', type=int, default=64)
    parser.add_argument('--batch', type=int, default=64)
    parser.add_argument('--steps', type=int, default=30)
    parser.add_argument('--folder', default='')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as beside:
        folder = pathlib.Path(options.folder or beside) / 'set'
        if not folder.exists():
            write(folder, options.images, options.side)
        config = configs.defaults('resnet', task='classification', source=f'file:{folder}')
        config.data.update(batch_size=options.batch, augment='crop(padding=4), flip')
        config.model.update(depth=8, width=8)
        opened = []
        for _ in range(2):  # headers are read, and then known
            started = time.perf_counter()
            data.load(config.data, 'classification').training_batches(batch_size=options.batch, seed=0)[0]
            opened.append(round(time.perf_counter() - started, 2))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({'images': options.images, 'side': options.side, 'first and later start, s': opened, 'peak MB': peak,
                          **machine(jax)}), flush=True)
        if not options.steps:
            return
        made = sets(config)
        config.data.cache_images = False
        experiment = train.prepare(config, pathlib.Path(beside) / 'run')
        run, state = experiment.train_step(config), experiment.strategy.enter(experiment.initial_state(config))

        def step(batch):
            nonlocal state
            state, facts = run(state, experiment.strategy.place(batch))
            jax.block_until_ready(facts)

        batches = lambda found: data.prefetched(found.training_batches(batch_size=options.batch, seed=0))
        fixed = next(batches(made['memory']))
        took = []
        for _ in range(WARM_UP):
            start = time.perf_counter()
            step(fixed)
            took.append(time.perf_counter() - start)
        alone = statistics.median(took[3:])
        for name, found in made.items():
            loader = batches(found)
            next(loader)
            start = time.perf_counter()
            for _ in range(options.steps):
                next(loader)
            rate = options.steps * options.batch / (time.perf_counter() - start)
            real, waited, longest = waits(batches(found), step, options.steps)
            _, idle, idle_longest = waits(batches(found), lambda batch: time.sleep(alone), options.steps)
            print(json.dumps({'set': name, 'images/s': round(rate), 'step ms': round(1e3 * alone, 1), 'step with loader ms': round(1e3 * real, 1),
                              'wait %': round(100 * waited / real, 2), 'longest wait ms': round(1e3 * longest, 1),
                              'wait beside an accelerator %': round(100 * idle / (alone + idle), 2),
                              'longest ms': round(1e3 * idle_longest, 1)}), flush=True)


if __name__ == '__main__':
    main()
