"""Distil a committee of soft trees into one.

The mean of several trainings errs less than each of them; a tree that is trained on
that mean, at the rows and between them, without their outputs, keeps most of the gain
(born-again trees, Breiman & Shang 1996; distillation, Hinton et al. 2015).
"""

from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.fit.refine.distillation import between
from secret_jax.fit.refine.soft.starts import Start, Trainer
from secret_jax.fit.refine.soft.steps import TrainingData, initial_state
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree

# Number of chunks of steps after which the student gets new points between the rows.
_CHUNKS_PER_POINTS = 8
# It learns at rows, and at points up to this share of the way to another row.
_JITTER = 0.5


def distilled(trainer: Trainer, committee: list[Start], stage: Stage = UNTOLD) -> Tree:
    """Train a tree on the committee's mean prediction; keep the closest tree.

    ``committee``: trained, the best first. Returns its best or its largest member,
    trained on the mean; or the best member as it is, if neither comes closer.
    """
    teachers = [member.tree for member in committee]
    best = committee[0]
    largest = max(committee, key=lambda member: member.origin.n_leaves)
    choices = [teachers[0]]
    for member in [best] if largest is best else [best, largest]:
        student = replace(
            member,
            state=initial_state(member.best),
            structure=member.structure._replace(start=member.best),
        )
        choices.append(_trained(trainer, student, teachers, stage))
    test = _student_data(trainer, teachers)
    return min(choices, key=lambda tree: _distance(tree, test))


def _trained(
    trainer: Trainer, student: Start, teachers: list[Tree], stage: Stage
) -> Tree:
    n_steps = trainer.of_steps(trainer.options.distil_steps)
    n_chunks = -(-n_steps // trainer.options.chunk)
    data = _student_data(trainer, teachers)
    for i in range(n_chunks):
        stage.at(i, n_chunks)
        if i and i % _CHUNKS_PER_POINTS == 0:
            data = _student_data(trainer, teachers)
        trainer.advance([student], len(data.targets), data)
    return replace(student, best=student.average).tree


def _student_data(trainer: Trainer, teachers: list[Tree]) -> TrainingData:
    """Training points with mean predictions: at most the rows, or those of the steps.

    On accelerators as many as the trainer's padded rows, for the same program.
    """
    n_points, rows = len(trainer.data.targets), trainer.all_rows
    if not trainer.on_device:
        drawn = _CHUNKS_PER_POINTS * trainer.options.chunk * trainer.batch_size
        n_points = min(n_points, drawn)
    first, second = trainer.random.integers(0, trainer.n_rows, (2, n_points))
    share = trainer.random.uniform(0, _JITTER, n_points)
    share[: n_points // 2] = 0
    x, codes = between(rows.table, teachers[0].schema, first, second, share)
    said = _mean_prediction(teachers, Table(x, codes)).astype(np.float32)
    weight = (rows.weight[first] / rows.weight.mean()).astype(np.float32)
    data = trainer.data._replace(x=x, codes=codes, targets=said, weight=weight)
    if trainer.on_device:
        return data
    # Nobody reads how a student errs on single rows, and they are not among the points.
    return data._replace(validation=data.validation[:1] * 0, fold=data.fold[:, :1])


def _mean_prediction(trees: list[Tree], table: Table) -> np.ndarray:
    """Average predictions; for classes probabilities, since log-odds overstate them."""
    return np.mean([t.loss.prediction(values(t, table)) for t in trees], axis=0)


def _distance(tree: Tree, data: TrainingData) -> float:
    """Mean squared distance from the teachers' mean prediction at the real rows.

    For classes the distance is between probabilities.
    """
    n_real = len(data.targets) // 2
    table = Table(data.x[:n_real], data.codes[:n_real])
    difference = _mean_prediction([tree], table) - data.targets[:n_real]
    squared = np.sum(difference**2, axis=1)
    return float(np.average(squared, weights=data.weight[:n_real]))
