use candle_core::{DType, Tensor};
use evenkeel_kernels::{AdamW, Pointer, Type, adamw, global_norm, square_parts, squares};
use evenkeel_model::kernels::cuda::Cuda;
use evenkeel_model::kernels::{Moment, OptimizerKernels, UpdateArrays};

use crate::Runner;
use crate::case::{Case, assert_close, tensor};
use crate::host::Host;
use crate::memory::Buffer;

/// The global norm of gradients.
fn norm(runner: &dyn Runner, gradients: &[Vec<f32>], seed: u32) -> f64 {
    let parts: Vec<usize> =
        gradients.iter().map(|gradient| square_parts(runner.properties(), gradient.len())).collect();
    let all = Buffer::blank_f64(parts.iter().sum());
    let mut first = 0;
    for (gradient, count) in gradients.iter().zip(parts) {
        let x = Buffer::f32(gradient);
        let at = Pointer(all.pointer().0 + 8 * first as u64);
        runner.run(&squares(runner.properties(), x.pointer(), gradient.len(), at).unwrap(), seed);
        first += count;
    }
    let norm = Buffer::blank_f64(1);
    runner.run(&global_norm(all.pointer(), first, norm.pointer()).unwrap(), seed);
    norm.read_f64()[0]
}

pub(crate) fn norms(runner: &dyn Runner) {
    for seed in 0..6 {
        let mut case = Case::new(seed);
        let sizes = [1, 7, 1024, 5001].map(|most| case.between(1, most));
        let gradients = sizes.map(|size| case.normal(size));
        let exact = gradients.iter().flatten().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        let found = norm(runner, &gradients, seed as u32);
        assert!((found / exact - 1.0).abs() < 1e-7, "{found} for {exact}");
    }
}

/// One value that is not finite is enough for the host to skip the update.
pub(crate) fn norms_that_are_not_finite(runner: &dyn Runner) {
    for broken in [f32::NAN, f32::INFINITY] {
        let found = norm(runner, &[vec![1.0; 300], vec![broken; 1]], 0);
        assert!(!found.is_finite(), "{found} with {broken}");
    }
}

const UPDATE: AdamW = AdamW { betas: [0.9, 0.99], step: 0.02, second_root: 0.3, epsilon: 1e-8, shrink: 0.999 };

/// Weight and both moments after an update.
fn update(runner: &dyn Runner, before: &[Vec<f32>; 4], scale: f32) -> [Vec<f32>; 3] {
    let buffers = before.each_ref().map(|values| Buffer::f32(values));
    let [weight, first, second, gradient] = [0, 1, 2, 3].map(|at| buffers[at].pointer());
    let count = before[0].len();
    let launch = adamw(runner.properties(), UPDATE, count, [weight, first, second], gradient, scale).unwrap();
    runner.run(&launch, 0);
    let [weight, first, second, _] = buffers.map(|buffer| buffer.read_f32());
    [weight, first, second]
}

fn state(seed: u64, count: usize) -> [Vec<f32>; 4] {
    let mut case = Case::new(seed);
    let mut state = [(); 4].map(|()| case.normal(count));
    // Second moments are not negative.
    state[2].iter_mut().for_each(|v| *v = v.abs());
    state
}

pub(crate) fn updates(runner: &dyn Runner) {
    for (seed, count) in [1, 6, 256, 4099, 4096].into_iter().enumerate() {
        let before = state(seed as u64, count);
        let scale = 0.7;
        let [weight, first, second] = update(runner, &before, scale);
        let [mut w, mut m, mut v] = [(); 3].map(|()| Vec::new());
        for i in 0..count {
            let [b1, b2] = UPDATE.betas;
            let g = f64::from(before[3][i]) * f64::from(scale);
            m.push(b1 * f64::from(before[1][i]) + (1.0 - b1) * g);
            v.push(b2 * f64::from(before[2][i]) + (1.0 - b2) * g * g);
            let root = v[i].sqrt() / UPDATE.second_root + UPDATE.epsilon;
            w.push(UPDATE.shrink * f64::from(before[0][i]) - UPDATE.step * m[i] / root);
        }
        for (what, found, wanted) in [("w", &weight, w), ("m", &first, m), ("v", &second, v)] {
            let wanted: Vec<f32> = wanted.into_iter().map(|x| x as f32).collect();
            assert_close(&format!("{what} of {count}"), Type::F32, 8.0, found, &wanted);
        }
    }
}

/// Two updates of parameters with moments on the device, and in host memory in pieces that do not divide them.
pub(crate) fn from_host(runner: &dyn Runner) {
    let mut case = Case::new(9);
    let counts = [1, 4, 130, 256, 999];
    let mut drawn = || counts.map(|count| tensor(&case.normal(count), &[count]));
    let (weights, gradients) = (drawn(), [drawn(), drawn()]);
    let kernels = || Cuda::new(Host::new(runner), DType::F32).unwrap().with_moment_piece(256).unwrap();
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();

    let on_device = kernels();
    let zeros = || counts.map(|count| Tensor::zeros(count, DType::F32, &candle_core::Device::Cpu).unwrap());
    let (first, second) = (zeros(), zeros());
    let from_host = kernels();
    let mut moments = from_host.host_moments(&counts).unwrap();
    for gradients in &gradients {
        let arrays = UpdateArrays { weights: &weights, first: &first, second: &second, gradients };
        on_device.update(arrays, 0.7, &[UPDATE; 5]).unwrap();
        from_host.update_from_host(&weights, gradients, &mut moments, 0.7, &[UPDATE; 5]).unwrap();
    }
    for id in 0..counts.len() {
        let wanted = [&first, &second, &weights].map(|all| bits(on_device.device().values_of(&all[id]).unwrap()));
        let weight = bits(from_host.device().values_of(&weights[id]).unwrap());
        let [first, second] = Moment::ALL.map(|moment| bits(moments.of(moment, id).values().to_vec()));
        assert_eq!([first, second, weight], wanted, "parameter of {} values", counts[id]);
    }
}
