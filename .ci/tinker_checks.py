"""What the SDK of Tinker does besides the cookbook's loops, against a running front: python tinker_checks.py URL MODEL_NAME"""

import sys

import tinker
from tinker import types


def datum(tokens, **inputs):
    return types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=dict(target_tokens=tokens[1:], **inputs))


def main():
    url, name = sys.argv[1:]
    # At its end the session is finished, so that the next client need not wait.
    with tinker.ServiceClient(base_url=url) as service:
        checks(service, name)
    print("all checks passed")


def checks(service, name):
    training = service.create_lora_training_client(base_model=name, rank=32).result()
    print("model", training.model_id, training.get_info().model_data.model_name)

    tokens = [10, 20, 30, 40, 50]
    adam = types.AdamParams(learning_rate=1e-3, eps=1e-8)
    losses = []
    for _ in range(3):
        passed = training.forward_backward([datum(tokens, weights=[0.0, 1.0, 1.0, 1.0])] * 3, "cross_entropy")
        updated = training.optim_step(adam)
        losses.append(passed.result().metrics["loss:sum"])
        assert updated.result().metrics["grad_norm"] > 0
    print("losses", losses)
    assert losses[2] < losses[0]

    # Two samplers of one model, and the base beside them.
    first = training.save_weights_and_get_sampling_client().result()
    training.forward_backward([datum(tokens, weights=[1.0] * 4)], "cross_entropy").result()
    training.optim_step(adam).result()
    path = training.save_weights_for_sampler("checks").result().path
    second = service.create_sampling_client(model_path=path).result()
    base = service.create_sampling_client(base_model=name).result()
    prompt = types.ModelInput.from_ints(tokens)
    scores = [sampler.compute_logprobs(prompt).result() for sampler in (first, second, base, first)]
    sums = [sum(score[1:]) for score in scores]
    print("log-probabilities", sums)
    assert scores[0] == scores[3] and sums[1] > sums[0] > sums[2]
    sampled = second.sample(prompt, 3, types.SamplingParams(max_tokens=5, seed=1)).result()
    assert len(sampled.sequences) == 3 and all(len(s.tokens) == len(s.logprobs) for s in sampled.sequences)

    # Losses with ratios, ours among them; and one of the client's own.
    rl = dict(logprobs=[-3.0] * 4, advantages=[0.0, 1.0, 1.0, 1.0])
    for loss in ("importance_sampling", "ppo", "cispo"):
        print(loss, training.forward_backward([datum(tokens, **rl)], loss).result().metrics)
    group = types.TensorData(data=[5], dtype="int64", shape=[1])
    other = dict(logprobs=[-3.0] * 4, advantages=[0.0, 0.0, -1.0, -1.0])
    print("balanced", training.forward_backward([datum(tokens, group=group, **rl), datum(tokens, group=group, **other)], "balanced").result().metrics)
    custom = training.forward_backward_custom([datum(tokens)], lambda data, logprobs: (sum((lp**2).sum() for lp in logprobs), {"mine": 1.0}))
    print("custom", custom.result().metrics)
    training.optim_step(adam).result()

    # What fails says whose fault it is, and nothing of it is applied.
    try:
        training.forward_backward([datum(tokens, **rl)], "dro").result()
        raise SystemExit("an unknown loss was accepted")
    except tinker.RequestFailedError as error:
        print("refused:", error)
    try:
        training.optim_step(adam).result()
        raise SystemExit("an update was applied without its gradient")
    except tinker.RequestFailedError as error:
        print("refused:", error)
    try:
        service.create_lora_training_client(base_model=name, rank=32).result()
        raise SystemExit("a second model was accepted")
    except tinker.RequestFailedError as error:
        assert "one model at a time" in str(error), error
        print("refused:", error)

    # A request that cannot be read fails, and what follows it is answered.
    for what, send in [
        ("optim_step", lambda: training.optim_step(types.AdamParams(learning_rate=float("nan")))),
        ("save_state", lambda: training.save_state("odd", ttl_seconds=-1)),
        ("save_weights_for_sampler", lambda: training.save_weights_for_sampler("checks")),
    ]:
        try:
            send().result(timeout=60)
            raise SystemExit(f"{what} was accepted")
        except tinker.RequestFailedError as error:
            print("refused:", error)
    training.forward_backward([datum(tokens, weights=[1.0] * 4)], "cross_entropy").result(timeout=60)
    try:
        training.optim_step(adam).result(timeout=60)
        raise SystemExit("an update was applied after one that was refused")
    except tinker.RequestFailedError as error:
        print("refused:", error)
    training.forward_backward([datum(tokens, weights=[1.0] * 4)], "cross_entropy").result(timeout=60)
    training.optim_step(adam).result(timeout=60)

    # Adjacent seeds share no samples, and an empty list of stops is none.
    draw = lambda **more: [s.tokens for s in second.sample(prompt, 3, types.SamplingParams(max_tokens=12, **more)).result().sequences]
    one, two = draw(seed=1), draw(seed=2)
    assert one == draw(seed=1) and not [tokens for tokens in one if tokens in two], (one, two)
    assert draw(seed=1, stop=[]) == one

    saved = training.save_state("state").result().path
    weights = training.forward_backward([datum(tokens, weights=[1.0] * 4)], "cross_entropy").result().metrics["loss:sum"]
    training.optim_step(adam).result()
    training.load_state_with_optimizer(saved).result()
    again = training.forward_backward([datum(tokens, weights=[1.0] * 4)], "cross_entropy").result().metrics["loss:sum"]
    assert again == weights, (again, weights)


if __name__ == "__main__":
    main()
