//! The global norm and AdamW.

use crate::launch::{BLOCK, DeviceProperties, Launch, Pointer, Type, arguments, is_wide, step, u32_of};
use evenkeel_errors::FieldError;

/// f64 values that [`squares`] and [`adamw`] write for a parameter of this many values.
pub fn square_parts(properties: DeviceProperties, count: usize) -> usize {
    properties.blocks((count as u64).div_ceil(4 * u64::from(BLOCK))) as usize
}

/// The sums of squares of parts of an fp32 gradient, f64 ([`square_parts`]).
///
/// # Errors
/// None today.
pub fn squares(properties: DeviceProperties, x: Pointer, count: usize, partial: Pointer) -> Result<Launch, FieldError> {
    let wide = is_wide(Type::F32, count, &[x]);
    let grid = square_parts(properties, count) as u32;
    Launch::new(
        format!("squares_{}", step(wide)),
        grid,
        BLOCK as usize * 8,
        4 * count,
        arguments![x, partial, count as u64],
    )
}

/// What gradients are multiplied by in an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    pub scale: f64,
    /// The most that the norm of the scaled gradients may be; infinity for no limit.
    pub limit: f64,
}

/// The global norm, f64, from `count` parts; and the `factor` of an update, fp32: NaN where the norm or the factor is
/// not finite.
///
/// # Errors
/// Too many parts.
pub fn global_norm(
    partial: Pointer,
    count: usize,
    norm: Pointer,
    factor: Pointer,
    clip: Clip,
) -> Result<Launch, FieldError> {
    let bytes = 8 * count;
    let count = u32_of("parts of a norm", count)?;
    let arguments = arguments![partial, count, norm, factor, clip.scale, clip.limit];
    Launch::new("global_norm".into(), 1, BLOCK as usize * 8, bytes, arguments)
}

/// The numbers of one update of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay rates of the moments.
    pub betas: [f64; 2],
    /// Learning rate over the first moment's bias correction.
    pub step: f64,
    /// Root of the second moment's bias correction.
    pub second_root: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// 1 - learning rate * weight decay.
    pub shrink: f64,
}

/// Updates `count` weights and both moments in place, with the gradient times the fp32 value at `factor`, and writes
/// the sums of squares of what parts of the weights changed by, f64 ([`square_parts`]). If the factor is NaN, nothing
/// is changed or written.
///
/// # Errors
/// None today.
pub fn adamw(
    properties: DeviceProperties,
    update: AdamW,
    count: usize,
    [weight, first, second]: [Pointer; 3],
    gradient: Pointer,
    factor: Pointer,
    partial: Pointer,
) -> Result<Launch, FieldError> {
    let wide = is_wide(Type::F32, count, &[weight, first, second, gradient]);
    let [beta1, beta2] = update.betas.map(|beta| beta as f32);
    let inverse_root = 1.0 / update.second_root as f32;
    let arguments = arguments![
        weight,
        first,
        second,
        gradient,
        factor,
        partial,
        count as u64,
        beta1,
        beta2,
        update.step as f32,
        inverse_root,
        update.epsilon as f32,
        update.shrink as f32
    ];
    Launch::new(
        format!("adamw_{}", step(wide)),
        square_parts(properties, count) as u32,
        BLOCK as usize * 8,
        28 * count,
        arguments,
    )
}
