//! Estimates of a mean gradient's length and direction without the bias of noise, and their jackknife intervals.
//!
//! For groups 1..n of a prompt with gradients g_k, the squared norm of the mean is estimated by the mean of g_j·g_k over
//! pairs of different groups, and the inner product of two rules' means by that of g_j·h_k. The plain squared norm of
//! the sample mean is too long by the trace of the covariance over n, and two rules on the same groups share their
//! noise, which would draw their cosine to 1. Sums go over prompts before a ratio is taken.

use serde::Serialize;

/// Half the width of a 95 % interval in standard errors.
const NORMAL: f64 = 1.96;

/// Inner products of the gradients of one prompt's groups under a rule, g, and under the reference, h.
#[derive(Clone, Debug)]
pub(super) struct Products {
    /// Each g_k with itself, and with the sum of all g.
    own: Pairs,
    /// Each h_k likewise.
    reference: Pairs,
    /// Each g_k with h_k, with the sum of all h, and each h_k with the sum of all g.
    cross: Pairs,
}

/// Inner products of two lists of vectors, a and b.
#[derive(Clone, Debug)]
struct Pairs {
    /// a_k·b_k.
    same: Vec<f64>,
    /// a_k·B, with B the sum of all b.
    left: Vec<f64>,
    /// b_k·A.
    right: Vec<f64>,
    /// A·B.
    all: f64,
}

/// Sums over prompts, all groups or all but one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    trace: f64,
    own: f64,
    reference: f64,
    cross: f64,
}

/// An estimate with its interval; absent where the noise hides the mean.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Estimate {
    pub(super) value: Option<f64>,
    /// Half the width of the 95 % interval.
    pub(super) margin: Option<f64>,
}

/// Trace of the covariance over the squared norm of the mean.
pub(super) fn noise(sums: Sums) -> Option<f64> {
    (sums.own > 0.0).then(|| sums.trace / sums.own)
}

/// Cosine of the two means. Noise may carry it beyond 1.
pub(super) fn cosine(sums: Sums) -> Option<f64> {
    (sums.own > 0.0 && sums.reference > 0.0).then(|| sums.cross / (sums.own * sums.reference).sqrt())
}

impl Pairs {
    fn of(a: &[Vec<f32>], b: &[Vec<f32>]) -> Self {
        let (sum_a, sum_b) = (sum(a), sum(b));
        Self {
            same: a.iter().zip(b).map(|(a, b)| dot(a, b)).collect(),
            left: a.iter().map(|a| dot_with(a, &sum_b)).collect(),
            right: b.iter().map(|b| dot_with(b, &sum_a)).collect(),
            all: sum_a.iter().zip(&sum_b).map(|(a, b)| a * b).sum(),
        }
    }

    /// The mean of a_j·b_k over different j and k, and the trace of the covariance of a and b, without one of them.
    fn mean_and_trace(&self, without: Option<usize>) -> (f64, f64) {
        let mut count = self.same.len() as f64;
        let mut all = self.all;
        let mut same: f64 = self.same.iter().sum();
        if let Some(k) = without {
            count -= 1.0;
            all += self.same[k] - self.left[k] - self.right[k];
            same -= self.same[k];
        }
        ((all - same) / (count * (count - 1.0)), (same - all / count) / (count - 1.0))
    }
}

impl Products {
    /// Products of gradients with one list of parameters for each group, in the same order for both rules.
    pub(super) fn of(gradients: &[Vec<f32>], reference: &[Vec<f32>]) -> Self {
        Self {
            own: Pairs::of(gradients, gradients),
            reference: Pairs::of(reference, reference),
            cross: Pairs::of(gradients, reference),
        }
    }

    fn sums(&self, without: Option<usize>) -> Sums {
        let (own, trace) = self.own.mean_and_trace(without);
        let (reference, _) = self.reference.mean_and_trace(without);
        let (cross, _) = self.cross.mean_and_trace(without);
        Sums { trace, own, reference, cross }
    }
}

impl Sums {
    fn plus(self, other: Self) -> Self {
        Self {
            trace: self.trace + other.trace,
            own: self.own + other.own,
            reference: self.reference + other.reference,
            cross: self.cross + other.cross,
        }
    }
}

impl Estimate {
    /// A quantity of the sums over prompts.
    pub(super) fn of(prompts: &[Products], quantity: impl Fn(Sums) -> Option<f64>) -> Self {
        Self::of_pair(prompts, prompts, |sums, _| quantity(sums))
    }

    /// A quantity of two rules on the same groups. The jackknife leaves out one group at a time, within its prompt.
    pub(super) fn of_pair(one: &[Products], other: &[Products], quantity: impl Fn(Sums, Sums) -> Option<f64>) -> Self {
        let whole = |prompts: &[Products]| -> Vec<Sums> { prompts.iter().map(|prompt| prompt.sums(None)).collect() };
        let (whole_one, whole_other) = (whole(one), whole(other));
        let total = |prompts: &[Products], whole: &[Sums], without: Option<(usize, usize)>| {
            let of_prompt = |(place, sums): (usize, &Sums)| match without {
                Some((left, group)) if left == place => prompts[place].sums(Some(group)),
                _ => *sums,
            };
            whole.iter().enumerate().map(of_prompt).fold(Sums::default(), Sums::plus)
        };
        let estimate_without = |without| quantity(total(one, &whole_one, without), total(other, &whole_other, without));
        let mut variance = Some(0.0);
        for (place, prompt) in one.iter().enumerate() {
            let groups = prompt.own.same.len();
            let left_out: Option<Vec<f64>> = (0..groups).map(|group| estimate_without(Some((place, group)))).collect();
            let Some(left_out) = left_out else {
                variance = None;
                break;
            };
            let mean = left_out.iter().sum::<f64>() / groups as f64;
            let squares: f64 = left_out.iter().map(|value| (value - mean).powi(2)).sum();
            variance = variance.map(|sum| sum + squares * (groups as f64 - 1.0) / groups as f64);
        }
        Self { value: estimate_without(None), margin: variance.map(|variance| NORMAL * variance.sqrt()) }
    }
}

fn sum(vectors: &[Vec<f32>]) -> Vec<f64> {
    let mut sum = vec![0.0; vectors.first().map_or(0, Vec::len)];
    for vector in vectors {
        sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    sum
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn dot_with(a: &[f32], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * b).sum()
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha12Rng;

    use super::*;

    const MEAN: [f32; 4] = [0.3, -0.1, 0.0, 0.2];

    /// Gradients of groups around a mean: uniform noise of variance 1/3 in each direction.
    fn drawn(random: &mut ChaCha12Rng, groups: usize, mean: &[f32]) -> Vec<Vec<f32>> {
        let mut one = || mean.iter().map(|value| value + random.random_range(-1.0..1.0)).collect();
        (0..groups).map(|_| one()).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
    }

    #[test]
    fn leaving_out_a_group_is_measuring_the_others() {
        let mut random = ChaCha12Rng::seed_from_u64(1);
        let (own, reference) = (drawn(&mut random, 7, &MEAN), drawn(&mut random, 7, &MEAN));
        let all = Products::of(&own, &reference);
        for k in 0..7 {
            let others = |of: &[Vec<f32>]| [&of[..k], &of[k + 1..]].concat();
            let (found, known) = (all.sums(Some(k)), Products::of(&others(&own), &others(&reference)).sums(None));
            let values = |sums: Sums| [sums.trace, sums.own, sums.reference, sums.cross];
            assert!(values(found).into_iter().zip(values(known)).all(|(a, b)| close(a, b)), "{found:?} {known:?}");
        }
    }

    #[test]
    fn by_hand() {
        // 1, 2, 3 in one direction: variance 1, mean of products of different ones (2 + 3 + 6) / 3.
        let vectors = [1.0_f32, 2.0, 3.0].map(|value| vec![value]);
        let sums = Products::of(&vectors, &vectors).sums(None);
        assert!(close(sums.trace, 1.0) && close(sums.own, 11.0 / 3.0) && close(sums.cross, 11.0 / 3.0), "{sums:?}");
        let found = Estimate::of(&[Products::of(&vectors, &vectors)], noise);
        assert!(close(found.value.unwrap(), 3.0 / 11.0));
        // Without one of them the quantity is 0.5/6, 2/3 and 0.5/2.
        let left_out = [0.5 / 6.0, 2.0 / 3.0, 0.25];
        let mean = left_out.iter().sum::<f64>() / 3.0;
        let variance: f64 = left_out.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() * 2.0 / 3.0;
        assert!(close(found.margin.unwrap(), NORMAL * variance.sqrt()));
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut random = ChaCha12Rng::seed_from_u64(2);
        let squared: f64 = MEAN.iter().map(|value| f64::from(value * value)).sum();
        let truth = (4.0 / 3.0) / squared;
        let mut held = 0;
        for _ in 0..100 {
            let prompts: Vec<Products> = (0..8)
                .map(|_| {
                    let gradients = drawn(&mut random, 64, &MEAN);
                    Products::of(&gradients, &gradients)
                })
                .collect();
            let Estimate { value: Some(value), margin: Some(margin) } = Estimate::of(&prompts, noise) else { continue };
            held += usize::from((value - truth).abs() <= margin);
        }
        assert!((88..=99).contains(&held), "{held} of 100");
    }

    #[test]
    fn means_that_point_apart_have_their_cosine_though_groups_share_their_noise() {
        let mut random = ChaCha12Rng::seed_from_u64(3);
        let other: Vec<f32> = vec![0.0, 0.3, 0.2, 0.1];
        let prompts: Vec<Products> = (0..8)
            .map(|_| {
                let own = drawn(&mut random, 256, &MEAN);
                let shift = |gradient: &Vec<f32>| {
                    gradient
                        .iter()
                        .zip(MEAN.iter().zip(&other))
                        .map(|(value, (mean, other))| value - mean + other)
                        .collect()
                };
                let reference: Vec<Vec<f32>> = own.iter().map(shift).collect();
                Products::of(&own, &reference)
            })
            .collect();
        let length = |vector: &[f32]| vector.iter().map(|value| f64::from(value * value)).sum::<f64>().sqrt();
        let truth = dot(&MEAN, &other) / (length(&MEAN) * length(&other));
        let Estimate { value: Some(value), margin: Some(margin) } = Estimate::of(&prompts, cosine) else {
            panic!("no cosine")
        };
        assert!((value - truth).abs() < 2.0 * margin && margin < 0.2, "{value} ± {margin} and not {truth}");
    }

    #[test]
    fn noise_without_a_mean_has_no_ratio() {
        let vectors = [1.0_f32, -1.0, 0.0].map(|value| vec![value]);
        let found = Estimate::of(&[Products::of(&vectors, &vectors)], noise);
        assert!(found.value.is_none());
    }
}
