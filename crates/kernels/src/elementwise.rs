//! What needs no other thread.

use crate::launch::{Argument, BLOCK, DeviceProperties, Launch, Pointer, Type, arguments, is_wide, step, u32_of};
use evenkeel_errors::FieldError;

/// Rotates every head of x (rows, heads * 2 * half) in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation {
    /// The type of x.
    pub kind: Type,
    pub rows: usize,
    /// Heads of a row.
    pub heads: usize,
    /// Half the width of a head.
    pub half: usize,
    /// Whether by the negative angle, as in the backward pass.
    pub back: bool,
}

/// The rotation; cosines and sines are fp32 (positions, half), positions u32 (rows).
///
/// # Errors
/// A half of 0, or too many rows.
pub fn rotary(
    properties: DeviceProperties,
    rotation: Rotation,
    x: Pointer,
    [cosines, sines]: [Pointer; 2],
    positions: Pointer,
) -> Result<Launch, FieldError> {
    let Rotation { kind, rows, heads, half, back } = rotation;
    if half == 0 {
        return Err(FieldError::new("half of a head", 0, "1 or more"));
    }
    let wide = is_wide(kind, half, &[x, cosines, sines]);
    let each = if wide { 16 / kind.size() } else { 1 };
    let grid = threads(properties, (rows * heads * half / each) as u64);
    let bytes = rows * (4 * heads * half * kind.size() + 8 * half + 4);
    let rows = u32_of("rows", rows)?;
    let heads = u32_of("heads", heads)?;
    let half = u32_of("half of a head", half)?;
    let sign = if back { -1.0f32 } else { 1.0 };
    let arguments = arguments![x, cosines, sines, positions, rows, heads, half, sign];
    Launch::new(format!("rotary_{}_{}", kind.name(), step(wide)), grid, 0, bytes, arguments)
}

/// silu(gate) * up over `count` values.
///
/// # Errors
/// None today.
pub fn swiglu(
    properties: DeviceProperties,
    kind: Type,
    count: usize,
    [gate, up]: [Pointer; 2],
    y: Pointer,
) -> Result<Launch, FieldError> {
    let wide = is_wide(kind, count, &[gate, up, y]);
    let name = format!("swiglu_{}_{}", kind.name(), step(wide));
    Launch::new(
        name,
        grid(properties, kind, wide, count),
        0,
        3 * count * kind.size(),
        arguments![gate, up, y, count as u64],
    )
}

/// The gradients of gate and up, which may replace them.
///
/// # Errors
/// None today.
pub fn swiglu_backward(
    properties: DeviceProperties,
    kind: Type,
    count: usize,
    dy: Pointer,
    [gate, up]: [Pointer; 2],
    [dgate, dup]: [Pointer; 2],
) -> Result<Launch, FieldError> {
    let wide = is_wide(kind, count, &[dy, gate, up, dgate, dup]);
    let name = format!("swiglu_backward_{}_{}", kind.name(), step(wide));
    let arguments = arguments![dy, gate, up, dgate, dup, count as u64];
    Launch::new(name, grid(properties, kind, wide, count), 0, 5 * count * kind.size(), arguments)
}

/// silu(gate) * up of rows that have gate and up beside each other: (rows, 2 * width) to (rows, width).
///
/// # Errors
/// A width of 0, or too many rows.
pub fn swiglu_joined(
    properties: DeviceProperties,
    kind: Type,
    [rows, width]: [usize; 2],
    both: Pointer,
    y: Pointer,
) -> Result<Launch, FieldError> {
    joined(properties, kind, "swiglu_joined", [rows, width], [both, y].into(), 3)
}

/// The gradients of gate and up beside each other, which may replace them.
///
/// # Errors
/// A width of 0, or too many rows.
pub fn swiglu_joined_backward(
    properties: DeviceProperties,
    kind: Type,
    [rows, width]: [usize; 2],
    dy: Pointer,
    both: Pointer,
    dboth: Pointer,
) -> Result<Launch, FieldError> {
    joined(properties, kind, "swiglu_joined_backward", [rows, width], [dy, both, dboth].into(), 5)
}

/// `arrays` of (rows, width) are read and written.
fn joined(
    properties: DeviceProperties,
    kind: Type,
    name: &str,
    [rows, width]: [usize; 2],
    pointers: Vec<Pointer>,
    arrays: usize,
) -> Result<Launch, FieldError> {
    if width == 0 {
        return Err(FieldError::new("width of a row", 0, "1 or more"));
    }
    let wide = is_wide(kind, width, &pointers);
    let count = rows * width;
    let mut arguments: Vec<Argument> = pointers.into_iter().map(Argument::from).collect();
    arguments.extend(arguments![u32_of("rows", rows)?, u32_of("width of a row", width)?]);
    let name = format!("{name}_{}_{}", kind.name(), step(wide));
    Launch::new(name, grid(properties, kind, wide, count), 0, arrays * count * kind.size(), arguments)
}

/// Adds an fp32 row to each row of y (rows, width).
///
/// # Errors
/// A width of 0, or too many rows.
pub fn add_bias(
    properties: DeviceProperties,
    kind: Type,
    [rows, width]: [usize; 2],
    y: Pointer,
    bias: Pointer,
) -> Result<Launch, FieldError> {
    if width == 0 {
        return Err(FieldError::new("width of a row", 0, "1 or more"));
    }
    let wide = is_wide(kind, width, &[y, bias]);
    let name = format!("add_bias_{}_{}", kind.name(), step(wide));
    let count = rows * width;
    let rows = u32_of("rows", rows)?;
    let width = u32_of("width of a row", width)?;
    let arguments = arguments![y, bias, rows, width];
    Launch::new(name, grid(properties, kind, wide, count), 0, 2 * count * kind.size(), arguments)
}

/// Adds `count` fp32 values to others.
///
/// # Errors
/// None today.
pub fn add(properties: DeviceProperties, count: usize, y: Pointer, x: Pointer) -> Result<Launch, FieldError> {
    let wide = is_wide(Type::F32, count, &[y, x]);
    let arguments = arguments![y, x, count as u64];
    Launch::new(format!("add_{}", step(wide)), grid(properties, Type::F32, wide, count), 0, 12 * count, arguments)
}

/// `count` values of one type as another.
///
/// # Errors
/// Equal types: that would be a copy.
pub fn cast(
    properties: DeviceProperties,
    count: usize,
    from: (Type, Pointer),
    to: (Type, Pointer),
) -> Result<Launch, FieldError> {
    if from.0 == to.0 {
        return Err(FieldError::new(
            "bytes of the type that is cast to",
            to.0.size(),
            "another type than it is cast from",
        ));
    }
    // Eight values on both sides.
    let wide = is_wide(Type::Bf16, count, &[from.1, to.1]);
    let name = format!("cast_{}_{}_{}", from.0.name(), to.0.name(), step(wide));
    let bytes = count * (from.0.size() + to.0.size());
    Launch::new(name, grid(properties, Type::Bf16, wide, count), 0, bytes, arguments![from.1, to.1, count as u64])
}

fn grid(properties: DeviceProperties, kind: Type, wide: bool, count: usize) -> u32 {
    threads(properties, (if wide { count / (16 / kind.size()) } else { count }) as u64)
}

fn threads(properties: DeviceProperties, threads: u64) -> u32 {
    properties.blocks(threads.div_ceil(u64::from(BLOCK)))
}
