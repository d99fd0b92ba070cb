"""DINO: a student finds what its own running average, the teacher, says of other views of the same image."""

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from seqjax import models, nn, ops
from seqjax.tasks.options import DINOOptions
from seqjax.tasks.self_supervised import SelfSupervised
from seqjax.tasks.sums import Sums
from seqjax.tasks.views import merged, parted, views

GLOBAL = 2  # views that the teacher reads


@dataclasses.dataclass(frozen=True)
class DINO(SelfSupervised):
    """Self-distillation without labels (Caron et al. 2021, algorithm 1).

        P_t = softmax((g_t(view u) - c) / T_t)       of the global views, without a gradient
        P_s = softmax(g_s(view v) / T_s)             of all views
        L   = mean over u != v of -P_t log P_s
        theta_t <- tau theta_t + (1 - tau) theta_s,  tau = 1 - (1 - tau_0) (1 + cos(pi step / steps)) / 2
        c       <- m c + (1 - m) mean of g_t over the global batch

    The teacher and the center c are `state`, saved in checkpoints; features are those of the teacher
    in evaluation. The loss of guessing is ln K. A row's loss needs no other row, so it is added up as
    others are, and the mean of g_t comes from sums.

    Batch norms of the student and of the teacher normalise with the statistics of their own batches,
    as in the authors' code. The running statistics are those of the teacher, which is what is
    evaluated; the loss of an evaluation has them for the student too. Only a teacher with batch
    norms has dropout.

    model, batch: see `SelfSupervised`; views [B, 2, H, W, C] and local_views [B, n, h, w, C] of `prepare`. steps: of the run.
    """

    prototypes: int = 1024
    projection_hidden: int = 512
    projection_width: int = 128
    teacher_momentum: float = 0.996
    teacher_temperature: float = 0.04
    student_temperature: float = 0.1
    center_momentum: float = 0.9
    local_views: int = 4
    local_augment: str = 'resized_crop(size=16, area=(0.05, 0.4)), flip'
    steps: int = 0

    options: ClassVar[type] = DINOOptions
    unit: ClassVar[str] = 'nats per view'

    @classmethod
    def settings(cls, options):
        return {**super().settings(options), 'steps': options['steps']}

    @property
    def head_module(self):
        return nn.PrototypeHead(self.projection_hidden, self.projection_width, self.prototypes)

    def make_views(self, images: jax.Array, keys: jax.Array) -> dict[str, jax.Array]:
        found = super().make_views(images, keys)
        if self.local_views:
            found['local_views'] = views(images, keys, ops.Augmentation.parse(self.local_augment), self.local_views, first=GLOBAL)
        return found

    def initial_state(self, params: Any) -> dict:
        return dict(teacher=params, center=jnp.zeros(self.prototypes))

    def next_state(self, state: dict, params: Any, sums: Sums, step: jax.Array) -> dict:
        tau, m = self.momentum(step), self.center_momentum
        follow = lambda teacher, student: (tau * teacher + (1 - tau) * student).astype(teacher.dtype)
        mean = sums.metrics['teacher_outputs'] / (GLOBAL * sums.weight)                        # [K]
        return dict(teacher=jax.tree.map(follow, state['teacher'], params), center=m * state['center'] + (1 - m) * mean)

    def momentum(self, step: jax.Array) -> jax.Array:
        """tau: from `teacher_momentum` at the first step to 1 at the last."""
        part = jnp.minimum(step.astype(jnp.float32) / max(self.steps, 1), 1)
        return 1 - (1 - self.teacher_momentum) * (1 + jnp.cos(jnp.pi * part)) / 2

    def __call__(self, params: Any, batch: dict, key: jax.Array | None = None) -> Sums:
        K, weights, teacher = self.prototypes, batch['weights'], self.state['teacher']
        outputs = lambda params, x, key=None: parted(self.project(params, self.features(params, merged(x), key)), x.shape[1])
        keys = (None, None) if key is None else jax.random.split(key)
        normed = isinstance(self.model, models.WithStatistics)
        running = self.model.batch_stats if normed else None
        student = [outputs(params, batch[name], key) for name, key in zip(('views', 'local_views'), keys) if name in batch]
        if normed:
            self.model.batch_stats = running  # of no use to the student: they are the teacher's
        of_teacher = outputs(teacher, batch['views'], key if normed else None)
        of_teacher = jax.lax.stop_gradient(of_teacher).astype(jnp.float32)          # [B, G, K]
        targets = ops.dino_targets(of_teacher, self.state['center'], self.teacher_temperature)
        losses = ops.dino_loss(jnp.concatenate(student, axis=1), targets, self.student_temperature)
        entropies = -(targets * jnp.log(jnp.maximum(targets, 1e-12))).sum(axis=-1).mean(axis=1)  # [B]
        metrics = dict(guessing=weights.sum() * math.log(K), target_entropy=(entropies * weights).sum(),
                       teacher_outputs=(of_teacher.sum(axis=1) * weights[:, None]).sum(axis=0))
        rows = {}
        if key is None:
            rows = self.kept_rows(dict(features=self.features(teacher, batch['inputs'])), batch)
            metrics['target_sum'] = (targets.mean(axis=1) * weights[:, None]).sum(axis=0)
        return Sums(loss=(losses * weights).sum(), weight=weights.sum(), metrics=metrics, rows=rows)

    def numbers(self, sums: Sums) -> dict[str, float]:
        """With the entropy of the mean target: ln K where all prototypes are used alike, 0 where one is for all images."""
        mean = jnp.maximum(sums.metrics['target_sum'] / sums.weight, 1e-12)
        return {**super().numbers(sums), 'mean_target_entropy': float(-(mean * jnp.log(mean)).sum())}
