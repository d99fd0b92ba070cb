"""Every field of a config, with its default and what it says: a section, a function."""

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from seqjax import models
from seqjax.errors import with_prefix

SECTIONS = ('data', 'model', 'train', 'optimizer', 'lora', 'parallel', 'decode', 'quantise', 'cost')


def defaults(model):
    """All fields with their defaults; `config.model` has those of `model`, a name of `models.MODELS`."""
    config = ConfigDict()
    config.seed = 0
    config.task = ''              # one of `tasks.TASKS`; '': what the source is for
    config.parameters = 0         # choose model.width so that the model has about so many; 0: as model.width says
    config.vocabulary = 0         # tokens, for --mode=describe without data; 0: what the data says
    config.init_from = ''         # begin with the parameters of another run, 'DIR', 'DIR@STEP' or 'DIR@best', or of Hugging
                                  # Face's files in DIR: docs/transfer.md; '': from scratch
    config.init_map = ''          # other names for theirs, 'encoder/*=*,head/*=': docs/transfer.md
    config.init_fresh = ''        # patterns of parameters that start anew all the same
    config.data = ConfigDict(_data())
    config.model = ConfigDict(dict(name=model, **with_prefix('config.model', lambda: models.fields(model))))
    config.train = ConfigDict(_train())
    config.optimizer = ConfigDict(_optimizer())
    config.lora = ConfigDict(_lora())
    config.parallel = ConfigDict(_parallel())
    config.decode = ConfigDict(_decode())
    config.quantise = ConfigDict(_quantise())
    config.cost = ConfigDict(_cost())
    return config


def _data():
    return dict(
        source='python',          # an embedded set, 'file:PATH', 'file:DIR/{train,dev,test}.tsv', for translation also
                                  # 'file:DIR/{train,dev,test}.{de,en}', or 'tfds:NAME': docs/data_files.md
        directory='',             # where TFDS keeps its sets; '': its own default
        held_out=0.1,             # the part held out, where the source has no validation split; the last part of a text
        held_out_rows=1000,       # of 'adding' and 'copy', which are generated without end
        split='validation',       # what --mode=eval measures: 'validation' or 'test'
        tokenizer='char',         # 'char', 'byte', 'bpe', 'unigram' or 'word'; 'pretrained': that of init_from, from Hugging Face
        vocabulary=1024,          # tokens that 'bpe', 'unigram' and 'word' may use; 'char' and 'byte' need no number
        shared=False,             # one vocabulary for both languages of a translation
        lowercase=False,          # words and characters of labelled and masked text, all of pairs and of corrupted spans
        batch_size=32,            # rows of one step, over all devices
        batch_tokens=0,           # of translations: source and target positions of one step, about; its rows are then a
                                  # multiple of batch_size, more of short pairs than of long ones; 0: batch_size rows
        sequence_length=64,       # tokens of a row of text; T of 'adding' and 'copy'; the longest string of 'reverse'
        carry=False,              # rows go on where those of the batch before ended, and the recurrent state with them
        documents='',             # 'line', 'paragraph' or what ends one: no row, or none of those in it, sees another; '': one
        # Text in which something is hidden, for masked language modelling and span corruption:
        masked=0.15,              # the share of the tokens that is hidden
        span_length=3.0,          # of span_corruption: the mean length of what is missing
        next_sentence=False,      # of masked_lm: two texts a row, and whether the second follows the first
        # Labelled sequences and translations are ragged:
        batching='bucket',        # 'bucket': a few row lengths with little padding; 'pad': one; 'exact': each its own;
                                  # 'pack', for tagging: rows as long as the longest sequence, which hold several
        shapes=4,                 # row lengths that 'bucket' may use; each is compiled once
        max_length=0,             # longer training sequences are cut to so many steps, longer pairs are left out; 0: none;
                                  # where rows are marked, all of them are cut, and 0 is as many as the longest one has
        marked=False,             # rows are START text END, or START text END text END, as 'bert' reads them
        train_examples=0,         # of labelled sequences: train on so many of them, drawn by split_seed; 0: all
        spelling=0,               # characters of every word that the model sees, beside the word; 0: none
        vectors='',               # a text file of pretrained word vectors; '': none
        # How a file of labelled sequences or translations is read:
        format='',                # 'tsv', 'csv', 'jsonl', 'conll', 'conllu', 'fasta', 'folder', 'parallel'; '': by its name
        input_column='',          # name or number, for a TFDS set of translations a language; 'a,b': two texts a row, which
                                  # need marks; '': see docs/data_files.md
        target_column='',
        split_column='',
        label_file='',            # beside a FASTA file of sequences, one with a label for every residue,
        mask_file='',             # and one that has 1 where the label counts
        split_seed=0,             # which of them are held out, where the file does not say
        on_error='stop',          # at a malformed line: 'stop', or 'skip' and count it
    )


def _train():
    return dict(
        steps=1000,
        eval_every=250,           # 0: only at the end
        eval_batches=0,           # 0: the whole validation split
        save_every=250,           # 0: only at the end
        label_smoothing=0.0,      # the share of every target that is spread over all tokens or classes; 0: off
        teacher='always',         # when the decoder of a translation reads the truth: 'always', or less and less often,
                                  # 'linear', 'exponential', 'inverse_sigmoid' (scheduled sampling)
        teacher_steps=1000,       # how fast that falls
        teacher_floor=0.0,        # and to what
        xray_every=0,             # how far gradients reach back through recurrent layers (docs/gradient_xray.md); 0: never
        stop_metric='',           # as 'eval/loss': training ends early when it no longer improves; '': it never does
        decode_rows=0,            # pairs that every evaluation translates and scores (eval/bleu, eval/exact_match); 0: none
        patience=0,               # evaluations in a row without an improvement after which it does
        baselines=True,           # of labelled sequences: what counting and a linear map reach on the same rows, at the end
        keep_latest=2,            # checkpoints
        keep_best=1,              # and, apart from those, the ones with the best stop_metric, or with the lowest eval/loss
        accumulate=1,             # micro-batches that a batch is cut into to save memory
        max_skipped=10,           # stop after so many updates in a row that were not finite
        peak_flops=0.0,           # operations that one device can do in a second, for the utilisation in result.json; 0: those
                                  # that are published for the device, if any are
    )


def _optimizer():
    return dict(
        name='adamw',             # any optimizer of optax
        learning_rate=1e-3,
        schedule='cosine',        # 'constant', 'linear', 'cosine' or 'noam'
        warmup_steps=100,
        final_rate=0.1,           # what linear and cosine fall to, as a part of learning_rate
        clip_norm=1.0,            # global norm of the gradient; 0: off
        clip_value=0.0,           # every value of the gradient; 0: off
        weight_decay=0.0,
        no_decay='*bias,*scale',  # parameters without decay, as patterns over their paths
        freeze='',                # parameters that are not trained: 'embedding/*,*/block_0/*'; all but some: '*,!output/*'
        rates='',                 # factors of the learning rate for parts: 'embedding/*=0.1,output/*=2'
        ema=0.0,                  # decay of the running average of the parameters; 0: off
        b1=placeholder(float),    # the four below are passed on where set
        b2=placeholder(float),
        eps=placeholder(float),
        momentum=placeholder(float),
    )


def _lora():
    """W + (alpha / rank) a b: only a and b are trained, and what optimizer.freeze='!...' names."""
    return dict(
        rank=0,                   # 0: off
        alpha=16.0,
        targets='*/query/kernel,*/value/kernel',  # patterns of the kernels W
    )


def _parallel():
    return dict(
        strategy='jit',           # 'jit' (sharded) or 'pmap' (data parallel)
        data=-1,                  # devices along each axis of the mesh; -1: all that are left
        fsdp=1,
        tensor=1,
        deadline=600,             # with several processes: give up when a step, evaluation batch or save takes so many seconds
    )


def _decode():
    return dict(
        prompt='\n',
        samples=1,
        seed=0,                   # another seed, another text
        max_new_tokens=500,       # and of a translation never more than length_factor times its source, plus 10
        length_factor=2.0,
        method='',                # 'greedy', 'sample', 'beam', 'exact', 'contrastive', 'speculative' or one that is registered
                                  # in decode.METHODS; '': what the fields below ask for
        sample=False,             # translations are drawn, as the texts of language models are, and not searched for
        temperature=0.8,          # 0: greedy
        top_k=0,                  # 0: all tokens
        top_p=1.0,
        min_p=0.0,                # only tokens at least so many times as likely as the likeliest; 0: all
        contrastive=0.0,          # of language models: what it costs one of the top_k likeliest tokens to be like the text
                                  # before it, from 0 to 1 (contrastive search); 0: off
        draft='',                 # of language models: the directory of a smaller run, which drafts tokens for this one to
                                  # accept or to replace (speculative sampling); '': none
        draft_tokens=4,           # that it drafts at a time
        beam=1,                   # hypotheses of a beam search; 1: greedy
        length_penalty=1.0,       # what log P is divided by: ((5 + length) / 6) to this power; 0: as it is
        coverage_penalty=0.0,     # for source words that were hardly looked at; 0: none
        groups=1,                 # parts of the beam that are kept apart,
        diversity=0.0,            # and how much it costs to choose what an earlier part has chosen
        no_repeat=0,              # no so many tokens in a row are written twice; 0: off
        min_length=0,             # tokens that a translation has at least, the end counted
        n_best=1,                 # answers to a line, best first
        prefix='',                # of translations: what every answer begins with
        exact=False,              # of translations: the best answer there is, for few tokens and short answers, and not a beam's
        stop='',                  # of language models: a character at which a text ends, as '\n'; '': none
        batch_size=32,            # lines that are decoded together
        page_size=16,             # of language models with --input: tokens of a page of the cache,
        pages=0,                  # and pages that the lines together have; 0: as many as they may need
    )


def _quantise():
    """A trained model in 8 bits, for --mode=eval|generate|predict|score|export: docs/quantisation.md."""
    return dict(
        weights='',               # 'int8' or 'float8'; '': as they were trained
        activations=False,        # what is multiplied by them is written in 8 bits, too
    )


def _cost():
    return dict(
        layers='',                # what --mode=cost measures: layers of docs/complexity.md, as 'recurrent,convolutional', or
                                  # 'all'; '': the training step of this config
        seconds=0.5,              # that every program is run for, again and again; the fastest run counts
        largest=2e11,             # operations; a program of more is counted, and neither compiled nor run
    )
