use evenkeel_kernels::{
    Rotation, Type, cast, rotary as rotate, swiglu as gate, swiglu_backward as gate_backward, swiglu_joined,
    swiglu_joined_backward,
};
use evenkeel_model::kernels::{Rotary, RotaryDirection, SwiGlu};
use evenkeel_model::{Architecture, Biases, Config, Rope};

use crate::Runner;
use crate::case::{Case, TYPES, assert_close, cpu, matrix, values};
use crate::memory::{Buffer, rounded};

pub(crate) const POSITIONS: usize = 40;

pub(crate) fn config(dim: usize) -> Config {
    Config {
        architecture: Architecture::QWEN3,
        query_key_norm: true,
        vocab_size: 8,
        hidden_size: 8,
        intermediate_size: 8,
        num_layers: 1,
        num_heads: 1,
        num_kv_heads: 1,
        head_dim: dim,
        max_position_embeddings: POSITIONS,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: Biases::NONE,
        tie_word_embeddings: true,
        eos_token_ids: Vec::new(),
    }
}

/// Cosines and sines of the CPU's table: what (1, 0) is rotated to.
fn angles(table: &<evenkeel_model::kernels::cpu::Cpu as Rotary>::RotaryTable, half: usize) -> [Vec<f32>; 2] {
    let unit: Vec<f32> = (0..2 * half).map(|i| f32::from(u8::from(i < half))).collect();
    let positions: Vec<u32> = (0..POSITIONS as u32).collect();
    let rotated =
        cpu().rotary(matrix(&unit.repeat(POSITIONS), 2 * half), table, &positions, RotaryDirection::Forward).unwrap();
    let rotated = values(&rotated);
    let part = |first: usize| rotated.chunks_exact(2 * half).flat_map(|row| row[first..][..half].to_vec()).collect();
    [part(0), part(half)]
}

pub(crate) fn rotary(runner: &dyn Runner) {
    for (seed, half) in [1, 5, 8, 20, 32, 48, 64, 128].into_iter().enumerate() {
        let table = cpu().rotary_table(&config(2 * half)).unwrap();
        let [cosines, sines] = angles(&table, half).map(|values| Buffer::f32(&values));
        for kind in TYPES {
            for direction in [RotaryDirection::Forward, RotaryDirection::Backward] {
                let mut case = Case::new(seed as u64);
                let rows = case.between(1, 20);
                let heads = case.between(1, 4);
                let x = case.of(kind, rows * heads * 2 * half);
                let positions = case.ids(rows, POSITIONS);
                let at = Buffer::u32(&positions);
                let buffer = Buffer::values(kind, &x, case.one_of(&[0, 1]));
                let rotation = Rotation { kind, rows, heads, half, back: direction == RotaryDirection::Backward };
                let launch = rotate(
                    runner.properties(),
                    rotation,
                    buffer.pointer(),
                    [cosines.pointer(), sines.pointer()],
                    at.pointer(),
                )
                .unwrap();
                runner.run(&launch, seed as u32);
                let wanted = cpu().rotary(matrix(&x, heads * 2 * half), &table, &positions, direction).unwrap();
                assert_close(&format!("{rotation:?}"), kind, 2.0, &buffer.read(kind), &values(&wanted));
            }
        }
    }
}

pub(crate) fn swiglu(runner: &dyn Runner) {
    for (seed, count) in [1, 7, 8, 255, 256, 4097, 8192].into_iter().enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let inputs = [(); 3].map(|()| case.of(kind, count));
            let [dy, g, u] = inputs.each_ref().map(|values| Buffer::values(kind, values, 0));
            let y = Buffer::blank(kind, count);
            let both = [g.pointer(), u.pointer()];
            runner.run(&gate(runner.properties(), kind, count, both, y.pointer()).unwrap(), seed as u32);
            // In place, as the backward pass does.
            let launch = gate_backward(runner.properties(), kind, count, dy.pointer(), both, both).unwrap();
            runner.run(&launch, seed as u32);

            let [dy_in, g_in, u_in] = inputs.each_ref().map(|values| matrix(values, count));
            let wanted = cpu().swiglu(&g_in, &u_in).unwrap();
            let [dgate, dup] = cpu().swiglu_backward(&dy_in, &g_in, &u_in).unwrap();
            for (what, found, wanted) in [("y", &y, wanted), ("dgate", &g, dgate), ("dup", &u, dup)] {
                assert_close(&format!("{what} of {count} {kind:?}"), kind, 8.0, &found.read(kind), &values(&wanted));
            }
        }
    }
}

pub(crate) fn joined_swiglu(runner: &dyn Runner) {
    for (seed, (rows, width)) in [(1, 1), (3, 5), (2, 8), (17, 24), (1, 257), (40, 1024)].into_iter().enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let inputs = [(); 3].map(|()| case.of(kind, rows * width));
            let [dy, gate, up] = &inputs;
            let beside: Vec<f32> =
                gate.chunks(width).zip(up.chunks(width)).flat_map(|(gate, up)| [gate, up].concat()).collect();
            let [dy_at, both] = [dy, &beside].map(|list| Buffer::values(kind, list, 0));
            let y = Buffer::blank(kind, rows * width);
            let shape = [rows, width];
            let launch = swiglu_joined(runner.properties(), kind, shape, both.pointer(), y.pointer()).unwrap();
            runner.run(&launch, seed as u32);
            // In place, as the backward pass does.
            let launch = swiglu_joined_backward(
                runner.properties(),
                kind,
                shape,
                dy_at.pointer(),
                both.pointer(),
                both.pointer(),
            );
            runner.run(&launch.unwrap(), seed as u32);

            let [dy_in, gate_in, up_in] = inputs.each_ref().map(|values| matrix(values, width));
            let wanted = values(&cpu().swiglu(&gate_in, &up_in).unwrap());
            assert_close(&format!("y of {shape:?} {kind:?}"), kind, 8.0, &y.read(kind), &wanted);
            let parts = cpu().swiglu_backward(&dy_in, &gate_in, &up_in).unwrap();
            let found = both.read(kind);
            for (number, wanted) in parts.iter().enumerate() {
                let rows = found.chunks(2 * width).flat_map(|row| row[number * width..][..width].to_vec());
                let what = format!("gradient {number} of {shape:?} {kind:?}");
                assert_close(&what, kind, 8.0, &rows.collect::<Vec<_>>(), &values(wanted));
            }
        }
    }
    let at = Buffer::blank_f32(1).pointer();
    assert!(swiglu_joined(runner.properties(), Type::F32, [1, 0], at, at).is_err());
}

pub(crate) fn casts(runner: &dyn Runner) {
    for (seed, count) in [1, 8, 1000, 4103].into_iter().enumerate() {
        let mut values = Case::new(seed as u64).normal(count);
        for (to, special) in
            values.iter_mut().zip([f32::NAN, f32::INFINITY, -f32::INFINITY, 1.003_906_2, f32::MAX, 1e-40])
        {
            *to = special;
        }
        let from = Buffer::f32(&values);
        let narrow = Buffer::blank(Type::Bf16, count);
        let wide = Buffer::blank_f32(count);
        let down =
            cast(runner.properties(), count, (Type::F32, from.pointer()), (Type::Bf16, narrow.pointer())).unwrap();
        let up = cast(runner.properties(), count, (Type::Bf16, narrow.pointer()), (Type::F32, wide.pointer())).unwrap();
        runner.run(&down, seed as u32);
        runner.run(&up, seed as u32);
        for (found, value) in wide.read_f32().into_iter().zip(&values) {
            let wanted = rounded(Type::Bf16, *value);
            assert!(found == wanted || (found.is_nan() && wanted.is_nan()), "{found} for {value}");
        }
    }
    let at = Buffer::blank_f32(1).pointer();
    assert!(cast(runner.properties(), 1, (Type::F32, at), (Type::F32, at)).is_err());
}
