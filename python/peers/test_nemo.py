"""NeMo-RL's files: its estimator and loss, with folded advantages, have the gradient of balanced aggregation, and it finds the environment by name.

PyPI has no release of it: EVENKEEL_NEMO_RL names a folder with its repository. The packages around it that need GPUs are stubs.
"""

import importlib.abc
import importlib.machinery
import os
import random
import sys
import types
from unittest.mock import MagicMock

import pytest
import torch

if "EVENKEEL_NEMO_RL" not in os.environ:
    pytest.skip("EVENKEEL_NEMO_RL is not set", allow_module_level=True)
sys.path.insert(0, os.environ["EVENKEEL_NEMO_RL"])
STUBS = {
    "blobfile", "cuda", "debugpy", "decord", "matplotlib", "megatron", "mlflow", "nemo_automodel", "ninja", "nvidia_resiliency_ext", "nvtx", "pynvml",
    "swanlab", "torchdata", "transformer_engine", "vllm", "wandb", "zmq", "torchvision", "math_verify", "tensorboard", "rich", "colored", "datasets",
}  # fmt: skip


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name.split(".")[0] in STUBS else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda name: MagicMock()
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(Stubs())

from nemo_rl.algorithms.advantage_estimator import AdvEstimatorConfig, GRPOAdvantageEstimator  # noqa: E402
from nemo_rl.algorithms.loss import ClippedPGLossConfig, ClippedPGLossFn  # noqa: E402
from nemo_rl.distributed.ray_actor_environment_registry import get_actor_python_env  # noqa: E402
from nemo_rl.environments.utils import ENV_REGISTRY  # noqa: E402

from direct import direct_loss, relative_error  # noqa: E402
from evenkeel_rlvr.nemo import CodeJudge, MathJudge, fold_advantages, register  # noqa: E402

RESPONSES, PROMPTS, WIDTH = 6, 8, 40
ROWS = RESPONSES * PROMPTS
GROUPS = [row // RESPONSES for row in range(ROWS)]


@pytest.mark.parametrize(("token_level", "cispo", "dual_clip"), [(True, False, None), (False, False, None), (True, True, None), (False, False, 3.0)])
def test_the_gradient_is_that_of_balanced_aggregation(gradient_error, token_level, cispo, dual_clip):
    torch.manual_seed(4)
    lengths = torch.randint(1, WIDTH + 1, (ROWS,))
    tokens = (torch.arange(WIDTH)[None] < lengths[:, None]).double()
    tokens = torch.cat([torch.zeros(ROWS, 1, dtype=torch.float64), tokens], 1)
    samples = torch.ones(ROWS, dtype=torch.float64)
    samples[[5, 17, 29]] = 0
    mask = tokens * samples[:, None]
    rewards = torch.randint(0, 2, (ROWS,)).double()
    rewards[:RESPONSES], rewards[RESPONSES : 2 * RESPONSES] = 1, torch.rand(RESPONSES)
    prompts = torch.tensor(GROUPS)[:, None].expand(-1, 3)
    settings = ClippedPGLossConfig(
        reference_policy_kl_penalty=0.0, ratio_clip_min=0.2, ratio_clip_max=0.28, ratio_clip_c=dual_clip, token_level_loss=token_level, use_cispo=cispo
    )
    plain = GRPOAdvantageEstimator(AdvEstimatorConfig(), settings).compute_advantage(prompts, rewards.float(), mask).double()
    folded = fold_advantages(plain, mask, prompts, token_level_loss=token_level, sample_mask=samples)

    old = -torch.rand(ROWS, WIDTH).double() * 2
    start = old + 0.3 * torch.randn(ROWS, WIDTH).double()
    before = torch.cat([torch.zeros(ROWS, 1, dtype=torch.float64), old], 1)
    loss = ClippedPGLossFn(settings)
    logp = start.clone().requires_grad_(True)
    rows, total = random.Random(0).sample(range(ROWS), ROWS), 0.0
    for part in (rows[i : i + 5] for i in range(0, ROWS, 5)):
        data = {
            "token_mask": tokens[part], "sample_mask": samples[part], "advantages": folded[part], "prev_logprobs": before[part],
            "generation_logprobs": before[part],
        }  # fmt: skip
        total = total + loss(logp[part], data, samples.sum(), mask.sum())[0]
    (got,) = torch.autograd.grad(total, logp)

    logp = start.clone().requires_grad_(True)
    ratio, a = (logp - old).exp(), plain[:, :1]
    terms = ratio.clamp(0.8, 1.28).detach() * a * logp if cispo else torch.minimum(ratio * a, ratio.clamp(0.8, 1.28) * a)
    if dual_clip:
        terms = torch.where(a < 0, torch.maximum(terms, dual_clip * a), terms)
    (want,) = torch.autograd.grad(direct_loss(terms, plain[:, 0], mask[:, 1:], GROUPS, samples.bool().tolist()), logp)
    gradient_error(relative_error(got, want))


def test_the_environments_have_names_and_an_interpreter():
    register()
    register()
    for name in ("evenkeel_math", "evenkeel_code"):
        assert get_actor_python_env(ENV_REGISTRY[name]["actor_class_fqn"])


@pytest.mark.shows("rewards", "invalid")
def test_the_environment_gives_its_results_as_tensors():
    logs = [[{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": text}] for text in ("\\boxed{4}", "\\boxed{5}", "\\boxed{4}")]
    result = MathJudge({"num_workers": 1, "on_invalid": -0.5}).step(logs, [{"ground_truth": gold} for gold in ("4", "4", "")])
    assert result.rewards.tolist() == [1.0, 0.0, -0.5] and result.terminateds.tolist() == [1.0, 1.0, 1.0]
    batch = {"rewards": result.rewards, "is_end": torch.ones(3), "extra_env_info": result.metadata}
    assert MathJudge().global_post_process_and_metrics(batch)[1]["invalid_share"] == pytest.approx(1 / 3)


@pytest.mark.shows("rewards", "invalid")
def test_programs_are_judged_by_the_sandbox_of_the_package():
    logs = [[{"role": "user", "content": "Add."}, {"role": "assistant", "content": f"```python\nprint(int(input()) {sign} 1)\n```"}] for sign in "+-+"]
    result = CodeJudge().step(logs, [{"ground_truth": tests} for tests in ('{"inputs": ["1"], "outputs": ["2"]}',) * 2 + ("{",)])
    assert result.rewards.tolist() == [1.0, 0.0, 0.0] and [known["evenkeel_invalid"] for known in result.metadata] == [False, False, True]
