r"""Helix, strand or coil? A label for every residue of a protein.

What it shows: many to many, in step, by convolutions whose reach doubles with every layer, and on both sides; residues whose
structure was not resolved have no label and are not counted.

    python launch.py --config=experiments/labelled/protein_structure.py --workdir=runs/structure
    python launch.py --config=experiments/labelled/protein_structure.py --workdir=runs/flip \
        --config.data.source=file:PATH/flip_secondary_structure/sequences.fasta.gz \
        --config.data.label_file=PATH/flip_secondary_structure/sampled.fasta.gz \
        --config.data.mask_file=PATH/flip_secondary_structure/mask.fasta.gz

Data: generated peptides with the structure that the rules of Chou & Fasman (1978) give them; or 11,156 proteins with their
structure in three states, as split by FLIP (Dallago et al. 2021). Training sequences are cut to 500 residues.

Measured on 2 CPU cores that did other work too (Python 3.11, jax 0.10.2), on the test part:

| data | accuracy | macro-F1 | most frequent label of each residue | minutes |
|---|---|---|---|---|
| peptides (default), seed 0 | 0.883 | 0.869 | 0.593 | 1.3 |
| FLIP, seeds 0, 1, 2 | 0.703 +- 0.002 | 0.692 +- 0.002 | 0.489 | 4.6 to 10.2 |
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='reader', task='tagging', source='peptides')
    config.data.update(tokenizer='char', batch_size=16, num_buckets=4, max_length=500)
    config.model.update(encoder='conv', width=96, depth=4, bidirectional=True, embedding=32, kernel_size=7, dilated=True,
                        dropout=0.1)
    config.train.update(steps=1000, eval_every=250, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
