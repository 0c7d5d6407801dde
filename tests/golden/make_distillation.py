"""Losses of on-policy distillation by the formulas of tinker-cookbook and TRL, in float64 by the standard library alone.

`tinker`: tinker-cookbook at 9dfcc3a2cf44432d621a01005073dc6d76a1e87a. `incorporate_kl_penalty` in
tinker_cookbook/distillation/train_on_policy.py, with rewards of 0 beside it: the advantage of a token is minus the
coefficient times (sampled - teacher log-probability) times its mask; with a discount above 0 each gets the sum of later
ones, by `discounted_future_sum_vectorized` in tinker_cookbook/rl/metrics.py. They go into Tinker's
`importance_sampling` loss, minus the sum of ratio times advantage. Two differences, both with a discount above 0 alone
(its default is 0): there the sum also leaves advantages on the prompt, and `_remove_mask` in tinker_cookbook/rl/train.py
sends them, while here a prompt has no gradient; there masked tokens between others count a discount each, while the
masks here have no such gaps.

`trl`: TRL at f2cd57710ae345ea6428ae95363267fcf38a3dc8. `GKDTrainer.generalized_jsd_loss` in
trl/experimental/gkd/gkd_trainer.py with beta = 1 and reduction = batchmean, which `_jsd_divergence` and
`_reduce_divergence_loss` in trl/experimental/distillation/distillation_trainer.py share: the mean over tokens of the
reverse KL over the whole vocabulary; gradients by the complex step, which has no error of cancellation.

    python3 make_distillation.py > distillation.json
"""

import cmath
import json
import math
import random

VOCABULARY = 16


def log_softmax(logits):
    most = max(logits, key=lambda logit: logit.real)
    total = sum(cmath.exp(logit - most) for logit in logits)
    return [logit - most - cmath.log(total) for logit in logits]


def tinker_case(rng, tokens, prompt, coefficient, discount):
    """A datum whose first `prompt` tokens are not the policy's, as tinker-cookbook sums it."""
    mask = [0.0] * prompt + [1.0] * tokens
    sampled = [rng.uniform(-4, -0.01) for _ in mask]
    teacher = [logp + rng.uniform(-2, 2) for logp in sampled]
    current = [logp + rng.uniform(-0.4, 0.4) for logp in sampled]
    reverse_kl = [(own - other) * kept for own, other, kept in zip(sampled, teacher, mask)]
    advantages = [coefficient * kept * -kl for kl, kept in zip(reverse_kl, mask)]
    if discount > 0:
        later = 0.0
        for index in reversed(range(len(advantages))):
            later = advantages[index] + discount * later
            advantages[index] = later
    ratios = [math.exp(new - old) for new, old in zip(current, sampled)]
    gradient = [-ratio * advantage * kept for ratio, advantage, kept in zip(ratios, advantages, mask)]
    return {
        "coefficient": coefficient,
        "discount": discount,
        "mask": [int(kept) for kept in mask],
        "sampled_logprobs": sampled,
        "teacher_logprobs": teacher,
        "logprobs": current,
        "kl": math.fsum(reverse_kl) / tokens,
        "loss": math.fsum(gradient),
        "gradient": gradient,
    }


def generalized_jsd_loss(student_logits, teacher_logits, labels, temperature):
    """With beta = 1 and reduction = batchmean; labels of -100 are left out."""
    total, count = 0.0, 0
    for student, teacher, label in zip(student_logits, teacher_logits, labels):
        if label == -100:
            continue
        own = log_softmax([logit / temperature for logit in student])
        other = log_softmax([logit / temperature for logit in teacher])
        total += sum(cmath.exp(a) * (a - b) for a, b in zip(own, other))
        count += 1
    return total / count


def trl_case(rng, tokens, temperature):
    logits = lambda: [[complex(rng.gauss(0, 2)) for _ in range(VOCABULARY)] for _ in range(tokens)]
    student, teacher = logits(), logits()
    labels = [-100 if index % 4 == 3 else index % VOCABULARY for index in range(tokens)]
    loss = generalized_jsd_loss(student, teacher, labels, temperature)
    step = 1e-30
    gradient = []
    for row in student:
        of_row = []
        for index in range(VOCABULARY):
            kept = row[index]
            row[index] = kept + step * 1j
            of_row.append(generalized_jsd_loss(student, teacher, labels, temperature).imag / step)
            row[index] = kept
        gradient.append(of_row)
    real = lambda rows: [[logit.real for logit in row] for row in rows]
    return {
        "temperature": temperature,
        "labels": labels,
        "student_logits": real(student),
        "teacher_logits": real(teacher),
        "loss": loss.real,
        "gradient": gradient,
    }


def main():
    rng = random.Random(65)
    tinker = [
        tinker_case(rng, tokens, prompt, coefficient, discount)
        for tokens, prompt, coefficient, discount in [
            (7, 3, 1.0, 0.0),
            (7, 0, 0.25, 0.5),
            (70, 5, 1.0, 0.9),
            (9, 2, 2.0, 1.0),
        ]
    ]
    trl = [trl_case(rng, tokens, temperature) for tokens, temperature in [(1, 1.0), (4, 1.0), (5, 0.7)]]
    print(json.dumps({"tinker": tinker, "trl": trl}))


main()
