//! Evenkeel's own CUDA kernels: those of the learner's operations that are bound by memory. Products and attention are
//! left to libraries.
//!
//! `source/` holds the kernels. With the feature `images` nvcc compiles them when a program is built ([`ImageKind`]).
//! They need none of CUDA's headers, so that a C++ compiler makes of the same text a library in which every CUDA thread
//! is a fibre (`crates/kernel-checks`): there they run without a GPU, in random schedules. A [`Launch`] says which
//! kernel runs over how many blocks with which arguments. It is computed without a device, so the tests launch exactly
//! what a GPU would.
#![forbid(unsafe_code)]

mod attention;
mod column_sum;
mod elementwise;
mod fused;
mod head;
mod image;
mod launch;
mod norm;
mod norm_rotary;
mod optimizer;
mod product;
mod rows;

pub use attention::{HeadRows, ScoreBlock};
pub use column_sum::ColumnSum;
pub use elementwise::{
    Rotation, add, add_bias, cast, rotary, swiglu, swiglu_backward, swiglu_joined, swiglu_joined_backward,
};
pub use fused::{FusedArrays, FusedAttention, FusedGradients, FusedLayout, FusedPass, FusedShape};
pub use head::{Logits, logit_gradients, token_scores};
#[cfg(feature = "images")]
pub use image::Image;
pub use image::ImageKind;
pub use launch::{Argument, DeviceProperties, Launch, Pointer, Type};
pub use norm::{Norm, NormBackward};
pub use norm_rotary::{HeadTables, NormRotary};
pub use optimizer::{AdamW, Clip, adamw, global_norm, square_parts, squares};
pub use product::{Operand, Product};
pub use rows::{RowCopy, Segments, columns, embed, embed_backward, gather, scatter};
