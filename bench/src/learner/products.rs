//! The matrix products of a training step and of decoding, on one thread, beside a large square one.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use candle_core::{Device, Tensor};
use evenkeel_model::Config;
use evenkeel_model::kernels::cpu::{Cpu, Matrix};
use evenkeel_model::kernels::{Linear, Rows};
use serde::Serialize;

use super::score::smollm2;

/// Rows, columns and terms of the square product.
const SQUARE: usize = 1024;

/// Billions of operations a second, the best of all repetitions.
#[derive(Serialize)]
pub(crate) struct Products {
    square: f64,
    rows: usize,
    products: Vec<Product>,
}

/// One weight (out, in): y = x Wᵀ, the gradient of x and that of the weight, as parts of the square product's rate.
#[derive(Serialize)]
struct Product {
    weight: &'static str,
    out: usize,
    input: usize,
    forward: f64,
    backward_input: f64,
    backward_weight: f64,
}

/// For the weights of `model`, a folder or `smollm2`, with this many rows of activations.
pub(crate) fn measure(model: &Path, reps: usize, rows: usize) -> Result<Products> {
    let config = match model.to_str() {
        Some("smollm2") => smollm2(),
        _ => Config::load(model)?.0,
    };
    let hidden = config.hidden_size;
    let heads = config.head_dim * config.num_heads;
    let shapes = [
        ("query", heads, hidden),
        ("key", config.head_dim * config.num_kv_heads, hidden),
        ("output", hidden, heads),
        ("gate", config.intermediate_size, hidden),
        ("down", hidden, config.intermediate_size),
        ("head", config.vocab_size, hidden),
    ];
    let [square, ..] = rates(reps, SQUARE, SQUARE, SQUARE)?;
    let product = |(weight, out, input)| {
        let [forward, backward_input, backward_weight] = rates(reps, rows, out, input)?.map(|rate| rate / square);
        Ok(Product { weight, out, input, forward, backward_input, backward_weight })
    };
    Ok(Products { square, rows, products: shapes.into_iter().map(product).collect::<Result<_>>()? })
}

fn rates(reps: usize, rows: usize, out: usize, input: usize) -> Result<[f64; 3]> {
    let cpu = Cpu::new()?;
    let weight = Tensor::rand(-1f32, 1.0, (out, input), &Device::Cpu)?;
    let x = activations(&cpu, rows, input)?;
    let dy = activations(&cpu, rows, out)?;
    let mut gradient = vec![0.0; out * input];
    let operations = 2.0 * rows as f64 * out as f64 * input as f64;
    let mut best = [0f64; 3];
    for _ in 0..=reps {
        let mut time = |which: usize, work: &mut dyn FnMut() -> evenkeel_model::Result<()>| -> Result<()> {
            let began = Instant::now();
            work()?;
            best[which] = best[which].max(operations / began.elapsed().as_secs_f64() / 1e9);
            Ok(())
        };
        time(0, &mut || cpu.linear(&x, &weight, None, None).map(drop))?;
        time(1, &mut || cpu.linear_backward_input(&dy, &weight, None).map(drop))?;
        time(2, &mut || cpu.linear_backward_weight(&dy, &x, &mut gradient))?;
    }
    Ok(best)
}

fn activations(cpu: &Cpu, rows: usize, width: usize) -> Result<Matrix> {
    let table = Tensor::rand(-1f32, 1.0, (rows, width), &Device::Cpu)?;
    Ok(cpu.embed(&table, &(0..rows as u32).collect::<Vec<_>>())?)
}
