#!/bin/sh
# verl with rewards and balanced aggregation of evenkeel-rlvr: the settings are in balanced.overrides, and what Hydra makes of them in composed.yaml.
# Data, model and everything else are arguments of verl's own:
#
#   ./train.sh data.train_files=train.parquet data.val_files=val.parquet actor_rollout_ref.model.path=MODEL trainer.n_gpus_per_node=8
#
# One mini-batch is one step (train_batch_size = ppo_mini_batch_size), so that each update is balanced aggregation of whole groups.
set -eu
overrides=$(dirname "$0")/balanced.overrides
set -f
# One setting on a line, without spaces.
exec python3 -m verl.trainer.main_ppo $(cat "$overrides") "$@"
