use candle_core::{DType, Tensor};
use evenkeel_kernels::{AdamW, Clip, Pointer, Type, adamw, global_norm, square_parts, squares};
use evenkeel_model::kernels::cuda::Cuda;
use evenkeel_model::kernels::{Moment, OptimizerKernels, UpdateArrays, UpdateNorm};

use crate::Runner;
use crate::case::{Case, assert_close, tensor};
use crate::host::Host;
use crate::memory::Buffer;

/// The global norm of gradients, and the factor of an update.
fn norm(runner: &dyn Runner, gradients: &[Vec<f32>], clip: Clip, seed: u32) -> (f64, f32) {
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
    let factor = Buffer::blank_f32(1);
    runner.run(&global_norm(all.pointer(), first, norm.pointer(), factor.pointer(), clip).unwrap(), seed);
    (norm.read_f64()[0], factor.read_f32()[0])
}

const UNLIMITED: Clip = Clip { scale: 1.0, limit: f64::INFINITY };

pub(crate) fn norms(runner: &dyn Runner) {
    for seed in 0..6 {
        let mut case = Case::new(seed);
        let sizes = [1, 7, 1024, 5001].map(|most| case.between(1, most));
        let gradients = sizes.map(|size| case.normal(size));
        let exact = gradients.iter().flatten().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        for (scale, limit) in [(1.0, f64::INFINITY), (0.25, 1e9), (0.25, 0.5), (3.0, 0.0)] {
            let (found, factor) = norm(runner, &gradients, Clip { scale, limit }, seed as u32);
            assert!((found / exact - 1.0).abs() < 1e-7, "{found} for {exact}");
            let wanted = scale * (limit / (scale * exact + 1e-6)).min(1.0);
            assert!(
                (f64::from(factor) - wanted).abs() <= 1e-6 * wanted,
                "{factor} for {wanted}, scale {scale}, limit {limit}"
            );
        }
    }
}

/// One value that is not finite is enough to skip the update; so is a factor that is not.
pub(crate) fn norms_that_are_not_finite(runner: &dyn Runner) {
    for broken in [f32::NAN, f32::INFINITY] {
        let (found, factor) = norm(runner, &[vec![1.0; 300], vec![broken; 1]], UNLIMITED, 0);
        assert!(!found.is_finite() && factor.is_nan(), "{found} and {factor} with {broken}");
    }
    for scale in [f64::NAN, f64::INFINITY, 1e300] {
        let (found, factor) = norm(runner, &[vec![1.0; 4]], Clip { scale, limit: f64::INFINITY }, 0);
        assert!(found == 2.0 && factor.is_nan(), "{factor} with a scale of {scale}");
    }
}

/// Neither weights nor moments change, in either place, when a gradient is not finite; and the same update works when
/// it is.
pub(crate) fn broken_updates(runner: &dyn Runner) {
    let mut case = Case::new(11);
    let counts = [130, 999];
    let mut drawn = || counts.map(|count| tensor(&case.normal(count), &[count]));
    let weights = drawn();
    let good = drawn();
    let [first, second] = [drawn(), drawn()];
    let second = second.map(|values| values.abs().unwrap());
    let mut bad: Vec<f32> = good[1].to_vec1().unwrap();
    bad[500] = f32::NAN;
    let bad = [good[0].clone(), tensor(&bad, &[999])];
    let kernels = Cuda::new(Host::new(runner), DType::F32).unwrap().with_moment_piece(256).unwrap();
    let mut moments = kernels.host_moments(&counts).unwrap();
    let arrays = |gradients| UpdateArrays { weights: &weights, first: &first, second: &second, gradients };
    let read = |tensors: &[Tensor; 2]| tensors.each_ref().map(|tensor| kernels.device().values_of(tensor).unwrap());
    let clip = Clip { scale: 0.5, limit: 1.0 };

    let found = kernels.update(arrays(&bad), clip, &[UPDATE; 2]).unwrap();
    assert!(found.norm.is_nan() && !found.applied && found.change == 0.0, "{found:?}");
    let of_host = kernels.update_from_host(&weights, &bad, &mut moments, clip, &[UPDATE; 2]).unwrap();
    assert!(of_host.norm.is_nan() && !of_host.applied, "{of_host:?}");
    for all in [&weights, &first, &second] {
        let before = all.each_ref().map(|tensor| tensor.to_vec1::<f32>().unwrap());
        assert_eq!(read(all), before);
    }
    assert!(Moment::ALL.iter().all(|&moment| moments.of(moment, 1).values().iter().all(|&value| value == 0.0)));

    let UpdateNorm { norm, applied, change } = kernels.update(arrays(&good), clip, &[UPDATE; 2]).unwrap();
    assert!(norm.is_finite() && applied && change > 0.0);
    assert_ne!(read(&weights), weights.each_ref().map(|tensor| tensor.to_vec1::<f32>().unwrap()));
}

const UPDATE: AdamW = AdamW { betas: [0.9, 0.99], step: 0.02, second_root: 0.3, epsilon: 1e-8, shrink: 0.999 };

/// Weight and both moments after an update, and the sum of squares of what was added to the weight.
fn update(runner: &dyn Runner, before: &[Vec<f32>; 4], scale: f32) -> ([Vec<f32>; 3], f64) {
    let buffers = before.each_ref().map(|values| Buffer::f32(values));
    let factor = Buffer::f32(&[scale]);
    let [weight, first, second, gradient] = [0, 1, 2, 3].map(|at| buffers[at].pointer());
    let count = before[0].len();
    let change = Buffer::blank_f64(square_parts(runner.properties(), count));
    let state = [weight, first, second];
    let launch = adamw(runner.properties(), UPDATE, count, state, gradient, factor.pointer(), change.pointer());
    runner.run(&launch.unwrap(), 0);
    let [weight, first, second, _] = buffers.map(|buffer| buffer.read_f32());
    ([weight, first, second], change.read_f64().iter().sum())
}

fn state(seed: u64, count: usize) -> [Vec<f32>; 4] {
    let mut case = Case::new(seed);
    let mut state = [(); 4].map(|()| case.normal(count));
    // Second moments are not negative.
    state[2].iter_mut().for_each(|v| *v = v.abs());
    state
}

pub(crate) fn updates(runner: &dyn Runner) {
    for (seed, count) in [0, 1, 6, 256, 4099, 4096].into_iter().enumerate() {
        let before = state(seed as u64, count);
        let scale = 0.7;
        let ([weight, first, second], change) = update(runner, &before, scale);
        let added = weight.iter().zip(&before[0]).map(|(after, before)| f64::from(*after) - f64::from(*before));
        let wanted: f64 = added.map(|added| added * added).sum();
        assert!((change - wanted).abs() <= 1e-6 * wanted, "change of {count}: {change} for {wanted}");
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
    let weights = drawn();
    let gradients = [drawn(), drawn()];
    let kernels = || Cuda::new(Host::new(runner), DType::F32).unwrap().with_moment_piece(256).unwrap();
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();

    let on_device = kernels();
    let zeros = || counts.map(|count| Tensor::zeros(count, DType::F32, &candle_core::Device::Cpu).unwrap());
    let first = zeros();
    let second = zeros();
    let from_host = kernels();
    let mut moments = from_host.host_moments(&counts).unwrap();
    for gradients in &gradients {
        let arrays = UpdateArrays { weights: &weights, first: &first, second: &second, gradients };
        let clip = Clip { scale: 0.7, limit: 20.0 };
        let found = on_device.update(arrays, clip, &[UPDATE; 5]).unwrap();
        let of_host = from_host.update_from_host(&weights, gradients, &mut moments, clip, &[UPDATE; 5]).unwrap();
        assert_eq!((found.norm, found.applied), (of_host.norm, of_host.applied));
        // Sums over pieces, and over four values or one, are rounded elsewhere.
        assert!((found.change / of_host.change - 1.0).abs() < 1e-7, "{found:?} and {of_host:?}");
        assert!(found.applied && found.change > 0.0 && 0.7 * found.norm > 20.0, "{found:?}");
    }
    for id in 0..counts.len() {
        let wanted = [&first, &second, &weights].map(|all| bits(on_device.device().values_of(&all[id]).unwrap()));
        let weight = bits(from_host.device().values_of(&weights[id]).unwrap());
        let [first, second] = Moment::ALL.map(|moment| bits(moments.of(moment, id).values().to_vec()));
        assert_eq!([first, second, weight], wanted, "parameter of {} values", counts[id]);
    }
}
