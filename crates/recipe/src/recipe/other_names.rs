//! Names of TRL, verl and other trainers that people write out of habit, and the settings that they are here.

use evenkeel_config::OtherNames;

const EPOCHS: &str = "`run.steps`, since steps are counted and not epochs: prompts / `sampling.prompts_per_step` of them \
                      are an epoch";
const BATCH: &str = "`sampling.prompts_per_step`, which counts prompts, each with `sampling.group_size` samples (the \
                     memory of a step does not depend on it: `learner.compute.micro_batch_tokens`)";
const LONGEST_PROMPT: &str = "no setting: a prompt may have what `sampling.max_tokens` leaves of the model's context, \
                              and `data.overlong` decides about longer ones";
const ENGINES: &str = "`generation.endpoints` names servers of vLLM; without any the engine of this program samples";
const VLLM_OPTION: &str = "an option of `vllm serve`, since engines are started by you (`generation.endpoints`)";
const REWARD_FILE: &str =
    "a Python file: `data.verifiers.reward.path = \"reward.py\"` and `data.verifier = \"reward\"`";
const KL_IN_REWARD: &str = "no setting: KL in the reward is not supported; as a term of the loss it is \
                            `learner.objective.kl_coefficient`";
const ADAM: &str = "no setting: the optimizer is AdamW, with what `learner.optimizer` says";
const REPORTING: &str = "no setting: each step is a line of metrics.jsonl and the page of the run; `run.tensorboard` \
                         writes event files, and `evenkeel metrics` prints a table for others";
const SAMPLES: &str = "no setting: `run.rollouts` keeps every sample by default, and `evenkeel show` prints them";
const RESUME: &str = "`evenkeel resume DIR`";

/// Names of other programs; the first list that has a key explains it.
pub(super) const OTHER_NAMES: &[OtherNames] = &[TRL, VERL, OTHERS, SECTIONS];

/// GRPOConfig, TrainingArguments, ModelConfig and ScriptArguments of TRL 1.16.
const TRL: OtherNames = OtherNames {
    whose: "TRL's",
    settings: &[
        ("learning_rate", "learner.optimizer.learning_rate"),
        ("num_generations", "sampling.group_size"),
        ("num_generations_eval", "evaluation.samples"),
        ("max_completion_length", "sampling.max_tokens"),
        ("temperature", "sampling.temperature"),
        ("top_p", "sampling.top_p"),
        ("top_k", "sampling.top_k"),
        ("min_p", "sampling.min_p"),
        ("beta", "learner.objective.kl_coefficient"),
        ("num_iterations", "learner.epochs"),
        ("epsilon", "learner.objective.clip_low"),
        ("epsilon_high", "learner.objective.clip_high"),
        ("delta", "learner.objective.dual_clip"),
        ("sapo_temperature_pos", "learner.objective.sapo_tau_pos"),
        ("sapo_temperature_neg", "learner.objective.sapo_tau_neg"),
        ("scale_rewards", "learner.objective.advantage"),
        ("multi_objective_aggregation", "learner.objective.advantage"),
        ("loss_type", "learner.objective.aggregation"),
        ("importance_sampling_level", "learner.objective.policy"),
        ("mask_truncated_completions", "shaping.mask_truncated"),
        ("entropy_coef", "learner.objective.entropy_coefficient"),
        ("vllm_importance_sampling_mode", "learner.objective.correction"),
        ("vllm_importance_sampling_correction", "learner.objective.correction"),
        ("vllm_importance_sampling_cap", "learner.objective.correction_high"),
        ("vllm_importance_sampling_clip_max", "learner.objective.correction_high"),
        ("vllm_importance_sampling_clip_min", "learner.objective.correction_low"),
        ("shuffle_dataset", "data.shuffle"),
        ("chat_template_kwargs", "data.template_arguments"),
        ("max_tool_calling_iterations", "turns.max_turns"),
        ("seed", "run.seed"),
        ("data_seed", "run.seed"),
        ("max_steps", "run.steps"),
        ("run_name", "run.name"),
        ("weight_decay", "learner.optimizer.weight_decay"),
        ("max_grad_norm", "learner.optimizer.max_grad_norm"),
        ("adam_beta1", "learner.optimizer.betas"),
        ("adam_beta2", "learner.optimizer.betas"),
        ("adam_epsilon", "learner.optimizer.epsilon"),
        ("lr_scheduler_type", "learner.optimizer.schedule"),
        ("warmup_steps", "learner.optimizer.warmup_steps"),
        ("warmup_ratio", "learner.optimizer.warmup_steps"),
        ("save_steps", "checkpoint.every"),
        ("save_total_limit", "checkpoint.keep"),
        ("metric_for_best_model", "checkpoint.keep_best"),
        ("eval_steps", "evaluation.every"),
        ("eval_strategy", "evaluation.every"),
        ("eval_on_start", "evaluation.before"),
        ("bf16", "learner.compute.dtype"),
        ("fp16", "learner.compute.dtype"),
        ("dtype", "learner.compute.dtype"),
        ("gradient_checkpointing", "learner.compute.recompute"),
        ("attn_implementation", "learner.compute.attention"),
        ("model_name_or_path", "model.path"),
        ("lora_r", "learner.lora.rank"),
        ("use_peft", "learner.lora.rank"),
        ("lora_alpha", "learner.lora.alpha"),
        ("lora_target_modules", "learner.lora.targets"),
        ("dataset_name", "data.files"),
    ],
    words: &[
        ("per_device_train_batch_size", BATCH),
        ("gradient_accumulation_steps", BATCH),
        ("generation_batch_size", BATCH),
        ("steps_per_generation", "`learner.mini_batch_groups`, the prompts of one update"),
        ("max_prompt_length", LONGEST_PROMPT),
        ("num_train_epochs", EPOCHS),
        ("reward_funcs", REWARD_FILE),
        ("reward_weights", "`data.verifiers.reward.functions`, a weight for each function of the file"),
        ("use_vllm", ENGINES),
        ("vllm_mode", ENGINES),
        ("vllm_server_base_url", ENGINES),
        ("vllm_server_host", ENGINES),
        ("vllm_server_port", ENGINES),
        ("vllm_gpu_memory_utilization", VLLM_OPTION),
        ("vllm_tensor_parallel_size", VLLM_OPTION),
        ("vllm_max_model_length", VLLM_OPTION),
        ("model_revision", "a part of the model's name, `model.path = \"hf:OWNER/NAME@REVISION\"`"),
        ("output_dir", "`--out DIR` on the command line"),
        ("resume_from_checkpoint", RESUME),
        ("optim", ADAM),
        ("report_to", REPORTING),
        ("logging_steps", REPORTING),
        ("log_completions", SAMPLES),
        ("num_completions_to_print", SAMPLES),
        ("use_liger_kernel", "no setting: the logits of a step are never in memory all at once, whatever the loss"),
        ("repetition_penalty", "no setting: answers are sampled from the distribution that the learner scores"),
    ],
};

/// The configuration of verl 0.9 for PPO, with the names of its scripts for DAPO.
const VERL: OtherNames = OtherNames {
    whose: "verl's",
    settings: &[
        ("data.train_files", "data.files"),
        ("data.val_files", "data.held_out_files"),
        ("data.prompt_key", "data.prompt_field"),
        ("data.train_batch_size", "sampling.prompts_per_step"),
        ("data.max_response_length", "sampling.max_tokens"),
        ("data.truncation", "data.overlong"),
        ("data.filter_overlong_prompts", "data.overlong"),
        ("data.seed", "run.seed"),
        ("data.apply_chat_template_kwargs", "data.template_arguments"),
        ("data.reward_fn_key", "data.verifiers.reward.data_sources"),
        ("actor_rollout_ref.model.path", "model.path"),
        ("actor_rollout_ref.model.enable_gradient_checkpointing", "learner.compute.recompute"),
        ("actor_rollout_ref.model.lora_rank", "learner.lora.rank"),
        ("actor_rollout_ref.model.lora_alpha", "learner.lora.alpha"),
        ("actor_rollout_ref.model.target_modules", "learner.lora.targets"),
        ("actor_rollout_ref.model.lora_adapter_path", "learner.lora.start"),
        ("actor_rollout_ref.model.lora.rank", "learner.lora.rank"),
        ("actor_rollout_ref.model.lora.alpha", "learner.lora.alpha"),
        ("actor_rollout_ref.model.lora.target_modules", "learner.lora.targets"),
        ("actor_rollout_ref.model.lora.adapter_path", "learner.lora.start"),
        ("actor_rollout_ref.rollout.n", "sampling.group_size"),
        ("actor_rollout_ref.rollout.temperature", "sampling.temperature"),
        ("actor_rollout_ref.rollout.top_p", "sampling.top_p"),
        ("actor_rollout_ref.rollout.top_k", "sampling.top_k"),
        ("actor_rollout_ref.rollout.response_length", "sampling.max_tokens"),
        ("actor_rollout_ref.rollout.val_kwargs.n", "evaluation.samples"),
        ("actor_rollout_ref.rollout.val_kwargs.temperature", "evaluation.temperature"),
        ("actor_rollout_ref.rollout.val_kwargs.top_p", "evaluation.top_p"),
        ("actor_rollout_ref.rollout.free_cache_engine", "sampling.engines_while_training"),
        ("actor_rollout_ref.rollout.multi_turn.max_assistant_turns", "turns.max_turns"),
        ("actor_rollout_ref.rollout.multi_turn.max_tool_response_length", "turns.max_observation_tokens"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", "learner.mini_batch_groups"),
        ("actor_rollout_ref.actor.ppo_epochs", "learner.epochs"),
        ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "learner.compute.micro_batch_tokens"),
        ("actor_rollout_ref.actor.shuffle", "learner.shuffle"),
        ("actor_rollout_ref.actor.clip_ratio", "learner.objective.clip_low"),
        ("actor_rollout_ref.actor.clip_ratio_low", "learner.objective.clip_low"),
        ("actor_rollout_ref.actor.clip_ratio_high", "learner.objective.clip_high"),
        ("actor_rollout_ref.actor.clip_ratio_c", "learner.objective.dual_clip"),
        ("actor_rollout_ref.actor.tau_pos", "learner.objective.sapo_tau_pos"),
        ("actor_rollout_ref.actor.tau_neg", "learner.objective.sapo_tau_neg"),
        ("actor_rollout_ref.actor.loss_agg_mode", "learner.objective.aggregation"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode", "learner.objective.policy"),
        ("actor_rollout_ref.actor.entropy_coeff", "learner.objective.entropy_coefficient"),
        ("actor_rollout_ref.actor.use_kl_loss", "learner.objective.kl_coefficient"),
        ("actor_rollout_ref.actor.kl_loss_coef", "learner.objective.kl_coefficient"),
        ("actor_rollout_ref.actor.kl_loss_type", "learner.objective.kl_estimator"),
        ("actor_rollout_ref.actor.grad_clip", "learner.optimizer.max_grad_norm"),
        ("actor_rollout_ref.actor.optim.clip_grad", "learner.optimizer.max_grad_norm"),
        ("actor_rollout_ref.actor.optim.lr", "learner.optimizer.learning_rate"),
        ("actor_rollout_ref.actor.optim.lr_warmup_steps", "learner.optimizer.warmup_steps"),
        ("actor_rollout_ref.actor.optim.lr_scheduler_type", "learner.optimizer.schedule"),
        ("actor_rollout_ref.actor.optim.warmup_style", "learner.optimizer.schedule"),
        ("actor_rollout_ref.actor.optim.total_training_steps", "learner.optimizer.total_steps"),
        ("actor_rollout_ref.actor.optim.min_lr_ratio", "learner.optimizer.final_fraction"),
        ("actor_rollout_ref.actor.optim.weight_decay", "learner.optimizer.weight_decay"),
        ("actor_rollout_ref.actor.optim.betas", "learner.optimizer.betas"),
        ("algorithm.adv_estimator", "learner.objective.advantage"),
        ("algorithm.norm_adv_by_std_in_grpo", "learner.objective.advantage"),
        ("algorithm.filter_groups.enable", "sampling.dynamic"),
        ("algorithm.filter_groups.max_num_gen_batches", "sampling.max_prompts_per_step"),
        ("algorithm.rollout_correction.rollout_is", "learner.objective.correction"),
        ("algorithm.rollout_correction.rollout_is_threshold", "learner.objective.correction_high"),
        ("reward_model.reward_kwargs.overlong_buffer_cfg.len", "shaping.overlong_buffer_tokens"),
        ("reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor", "shaping.overlong_penalty"),
        ("reward_model.reward_kwargs.max_resp_len", "sampling.max_tokens"),
        ("trainer.total_training_steps", "run.steps"),
        ("trainer.experiment_name", "run.name"),
        ("trainer.project_name", "run.name"),
        ("trainer.test_freq", "evaluation.every"),
        ("trainer.val_before_train", "evaluation.before"),
        ("trainer.save_freq", "checkpoint.every"),
        ("trainer.max_actor_ckpt_to_keep", "checkpoint.keep"),
        ("trainer.rollout_data_dir", "run.rollouts"),
        ("trainer.device", "learner.compute.device"),
    ],
    words: &[
        ("data.max_prompt_length", LONGEST_PROMPT),
        ("data.gen_batch_size", "no setting: a dropped group is replaced by the next prompt at once"),
        ("actor_rollout_ref.rollout.name", ENGINES),
        ("actor_rollout_ref.rollout.mode", ENGINES),
        ("actor_rollout_ref.rollout.gpu_memory_utilization", VLLM_OPTION),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size", VLLM_OPTION),
        ("algorithm.kl_ctrl.kl_coef", KL_IN_REWARD),
        ("algorithm.use_kl_in_reward", KL_IN_REWARD),
        ("algorithm.gamma", "no setting: there is no critic"),
        ("algorithm.lam", "no setting: there is no critic"),
        ("reward_model.reward_manager", "section `shaping`, and `data.verifiers` for functions of your own"),
        ("custom_reward_function.path", REWARD_FILE),
        ("custom_reward_function.name", "`data.verifiers.reward.functions`"),
        ("reward.custom_reward_function.path", REWARD_FILE),
        ("reward.custom_reward_function.name", "`data.verifiers.reward.functions`"),
        ("trainer.total_epochs", EPOCHS),
        ("trainer.default_local_dir", "`--out DIR` on the command line"),
        ("trainer.resume_mode", RESUME),
        ("trainer.logger", REPORTING),
        ("trainer.log_val_generations", SAMPLES),
        ("trainer.n_gpus_per_node", "`learner.ranks` for the learner, and `generation.endpoints` for engines"),
        ("trainer.nnodes", "`learner.ranks` for the learner, and `generation.endpoints` for engines"),
        ("data.image_key", "no setting: prompts are texts, and a row with `images` is refused"),
        ("actor_rollout_ref.model.use_remove_padding", "no setting: sequences are always packed without padding"),
        (
            "actor_rollout_ref.rollout.calculate_log_probs",
            "no setting: engines always give the log-probabilities of what they sample",
        ),
        (
            "reward_model.enable",
            "no setting: rewards are from `data.verifiers`, which may be functions, services or a judge",
        ),
    ],
};

/// What is usual in several other programs.
const OTHERS: OtherNames = OtherNames {
    whose: "another program's",
    settings: &[
        ("lr", "learner.optimizer.learning_rate"),
        ("max_new_tokens", "sampling.max_tokens"),
        ("max_response_length", "sampling.max_tokens"),
        ("rollout_n", "sampling.group_size"),
        ("kl_coef", "learner.objective.kl_coefficient"),
        ("kl_beta", "learner.objective.kl_coefficient"),
        ("clip_range", "learner.objective.clip_low"),
        ("model_name", "model.path"),
        ("train_files", "data.files"),
        ("random_seed", "run.seed"),
    ],
    words: &[("batch_size", BATCH), ("train_batch_size", BATCH), ("epochs", EPOCHS), ("num_epochs", EPOCHS)],
};

/// Sections that are taken for a setting of the same name in another one.
const SECTIONS: OtherNames = OtherNames {
    whose: "a section's",
    settings: &[("environment", "data.environment"), ("model", "model.path"), ("data", "data.files")],
    words: &[],
};

#[cfg(test)]
mod tests {
    use evenkeel_config::{ConfigError, Loader};

    use super::super::Recipe;
    use super::*;

    fn refused(set: &str) -> String {
        match Loader::new().set([set]).and_then(Loader::load::<Recipe>) {
            Err(error @ ConfigError::UnknownKey { .. }) => error.to_string(),
            other => panic!("{set}: {other:?}"),
        }
    }

    #[test]
    fn habits_lead_to_settings_that_there_are() {
        for names in [TRL, VERL, OTHERS] {
            for (theirs, here) in names.settings {
                let set = format!("{here}=x");
                let found = Loader::new().set([&set]).and_then(Loader::load::<Recipe>);
                assert!(!matches!(found, Err(ConfigError::UnknownKey { .. })), "{here}: {found:?}");
                let said = refused(&format!("{theirs}=1"));
                assert!(said.contains(&format!("here it is `{here}`")), "{theirs}: {said}");
            }
            for (theirs, words) in names.words {
                let said = refused(&format!("{theirs}=1"));
                assert!(said.ends_with(words), "{theirs}: {said}");
            }
        }
    }

    #[test]
    fn keys_in_sections_of_ours_and_whole_files_of_theirs_are_recognised() {
        for (set, words) in [
            ("learner.lr=1e-5", "here it is `learner.optimizer.learning_rate`"),
            ("learner.learning_rate=1e-5", "here it is `learner.optimizer.learning_rate`"),
            ("sampling.num_generations=8", "here it is `sampling.group_size`"),
            ("actor.optim.lr=1e-5", "`actor_rollout_ref.actor.optim.lr` is verl's name"),
            ("group_size=8", "nearest allowed: `sampling.group_size`"),
            ("learner.optimizer.beta=0.9", "nearest allowed: `learner.optimizer.betas`"),
        ] {
            let said = refused(set);
            assert!(said.contains(words), "{set}: {said}");
        }
        let theirs = "[actor_rollout_ref.actor]\nppo_mini_batch_size = 32\noptim.lr = 1e-6\n";
        let said = Loader::new().text("verl.toml", theirs).and_then(Loader::load::<Recipe>).unwrap_err().to_string();
        assert!(said.contains("here it is `learner.optimizer.learning_rate`; `actor_rollout_ref.actor.ppo"), "{said}");
        assert!(said.ends_with("here it is `learner.mini_batch_groups`"), "{said}");
        let said = Loader::new().set(["environment=shop.py"]).and_then(Loader::load::<Recipe>).unwrap_err().to_string();
        assert!(said.ends_with("allowed: a table (`environment` is a section's name; here it is `data.environment`)"));
    }
}
