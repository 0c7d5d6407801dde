//! Checks of the CUDA kernels against the CPU's own, on random shapes.
//!
//! A [`Runner`] runs launches whose memory is that of [`Buffer`]s of this process: on fibres (this crate's tests) or on
//! a GPU (`bench/gpu`, which copies the buffers there and back). So both run the same checks.
#![allow(clippy::unwrap_used, reason = "a check fails by panicking")]

mod attention;
pub mod case;
mod elementwise;
mod emulation;
mod fused;
mod head;
mod host;
mod library;
mod memory;
mod network;
mod norm;
mod optimizer;
mod product;
mod rows;

use evenkeel_kernels::{DeviceProperties, FusedAttention, FusedPass, FusedShape, Launch, Product};
use evenkeel_model::{AttentionFallback, AttentionLibrary};

pub use emulation::multiply_in_fp32;
pub use host::Host;
pub use library::{Factors, attend};
pub use memory::{Buffer, CheckedBlock, Poison, poison_guards};
pub use product::multiply;

pub trait Runner: Send + Sync {
    /// The device whose launches are computed.
    fn properties(&self) -> DeviceProperties;
    /// Runs a launch to its end. The pointers lead into buffers of this process. The seed chooses a schedule, where
    /// there is a choice.
    ///
    /// # Panics
    /// If the kernel cannot be run, or fails.
    fn run(&self, launch: &Launch, seed: u32);
    /// Computes a product to its end. The pointers lead into buffers of this process.
    ///
    /// # Panics
    /// If it cannot be computed.
    fn multiply(&self, product: &Product);
    /// What computes attention in one call, or why nothing does.
    ///
    /// # Errors
    /// The reason.
    fn attention_library(&self) -> Result<AttentionLibrary, AttentionFallback>;
    /// Bytes of workspace of a pass of attention, or `None` where it is not computed in one call.
    fn attention_workspace(&self, shape: FusedShape, pass: FusedPass) -> Option<usize>;
    /// Computes a pass of attention to its end. The pointers lead into buffers of this process.
    ///
    /// # Panics
    /// If it cannot be computed.
    fn attend(&self, attention: &FusedAttention);
}

/// A check of some kernels, by name. It fails by panicking.
pub type Check = (&'static str, fn(&dyn Runner));

pub const CHECKS: [Check; 33] = [
    ("attention::output_and_gradients_are_those_of_the_cpu", attention::whole),
    ("attention::rows_of_one_and_of_4097_scores_are_those_of_the_formulas", attention::long_rows),
    ("attention::heads_are_repeated_summed_and_multiplied", attention::heads),
    ("attention::biases_and_gradients_are_added", attention::sums),
    ("fused::packed_sequences_are_those_of_the_cpu", fused::packed),
    ("fused::a_deterministic_pass_gives_the_same_bits_each_time", fused::repeated),
    ("network::scores_and_gradients_are_those_of_the_cpu", network::passes),
    ("network::a_frozen_base_in_bf16_gives_the_bits_of_the_same_values_in_fp32", network::frozen),
    ("network::each_variant_gives_the_scores_and_gradients_of_the_cpu", network::variants),
    ("product::products_and_their_gradients_are_those_of_the_cpu", product::products),
    ("product::batches_keep_to_their_rows", product::batches),
    ("norm::rows_and_heads_of_every_width_are_normalised", norm::forward),
    ("norm::a_sum_of_rows_is_kept_and_normalised_in_one_pass", norm::sums_of_rows),
    ("norm::the_gradients_of_x_and_weight_are_those_of_the_cpu", norm::backward),
    ("norm::heads_are_normalised_and_rotated_in_one_pass", norm::rotated_heads),
    ("norm::columns_are_summed_in_one_launch_or_two", norm::column_sums),
    ("elementwise::heads_are_rotated_and_rotated_back", elementwise::rotary),
    ("elementwise::the_gated_activation_and_its_gradients_are_those_of_the_cpu", elementwise::swiglu),
    ("elementwise::gate_and_up_beside_each_other_give_what_they_give_apart", elementwise::joined_swiglu),
    ("elementwise::casts_round_to_the_nearest_and_keep_what_is_no_number", elementwise::casts),
    ("rows::an_embedding_and_its_gradient_are_those_of_the_cpu", rows::embedding),
    ("rows::columns_of_a_wider_matrix_are_copied_out_of_it_and_back", rows::parts),
    ("rows::selected_rows_are_scattered_back", rows::selection),
    ("head::scores_are_those_of_the_cpu_at_every_temperature", head::scores),
    ("head::gradients_of_logits_are_those_of_the_cpu", head::gradients),
    ("head::scores_by_the_devices_own_exponential_are_those_of_the_cpu", head::fast_scores),
    ("head::gradients_by_the_devices_own_exponential_are_those_of_the_cpu", head::fast_gradients),
    ("head::a_broken_logit_is_not_lost", head::broken),
    ("optimizer::the_norm_is_exact", optimizer::norms),
    ("optimizer::weights_and_moments_are_those_of_adamw", optimizer::updates),
    ("optimizer::moments_of_the_host_in_pieces_give_the_same_bits", optimizer::from_host),
    ("optimizer::an_update_by_what_is_not_finite_changes_nothing", optimizer::broken_updates),
    ("optimizer::a_value_that_is_not_finite_shows_in_the_norm", optimizer::norms_that_are_not_finite),
];
