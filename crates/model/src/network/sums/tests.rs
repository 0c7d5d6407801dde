//! What decides the order of sums, and how many gradients there are at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::Tensor;
use proptest::prelude::*;

use super::*;
use crate::config::tests::tiny;
use crate::parameters::ParameterId;

/// Gradients in words, and how many there are.
#[derive(Default)]
struct Words {
    live: Arc<AtomicUsize>,
    peak: AtomicUsize,
}

/// What was added to a gradient, in its order.
struct Text {
    text: String,
    live: Arc<AtomicUsize>,
}

impl Drop for Text {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Arrays for Words {
    type Matrix = ();
    type Gradient = Text;
    const SERVES_THREADS: bool = true;

    fn zero_gradient(&self, _: &Tensor) -> Result<Text> {
        let live = self.live.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(live, Ordering::SeqCst);
        Ok(Text { text: String::new(), live: Arc::clone(&self.live) })
    }

    fn add_gradient(&self, into: &mut Text, other: Text) -> Result<()> {
        into.text = format!("[{} + {}]", into.text, other.text);
        Ok(())
    }

    fn gradient_tensor(&self, gradient: Text, _: &Tensor) -> Result<Tensor> {
        Ok(Tensor::from_slice(gradient.text.as_bytes(), gradient.text.len(), &candle_core::Device::Cpu)?)
    }

    fn to_host(&self, (): &()) -> Result<Vec<f32>> {
        Ok(Vec::new())
    }
}

fn options(blocks: usize, threads: usize) -> NetworkOptions {
    NetworkOptions { gradient_blocks: blocks, threads, ..NetworkOptions::default() }
}

/// Micro-batches of these blocks, in calls that end before these indices.
fn summed(blocks: &[usize], ends: &[usize], options: &NetworkOptions) -> Result<(Vec<Vec<u8>>, usize)> {
    let kernels = Words::default();
    let workers = Workers::new(options.threads)?;
    let parameters = Parameters::described(&tiny())?;
    let batches: Vec<_> = blocks.iter().map(|&block| Packed::default().in_block(block)).collect();
    let mut sums = Sums::new(options);
    let mut first = 0;
    for end in ends.iter().copied().chain([batches.len()]) {
        sums = sums.pass(&kernels, &parameters, &workers, &batches[first..end.max(first)], |index, sums| {
            for id in (0..parameters.specs().len()).map(ParameterId::at) {
                sums.of(id)?.expect("all are trained").text += &format!(" {}", first + index);
            }
            sums.of_embedding()?.expect("all are trained").text += &format!(" {}e", first + index);
            Ok(())
        })?;
        first = end.max(first);
    }
    let sum = sums.finish(&kernels)?.map(|sum| sum.into_tensors(&kernels, &parameters)).transpose()?;
    let bytes = sum.into_iter().flatten().map(|tensor| tensor.to_vec1::<u8>()).collect::<Result<Vec<_>, _>>()?;
    // The embedding's own sum counts as one more parameter.
    Ok((bytes, kernels.peak.load(Ordering::SeqCst).div_ceil(parameters.specs().len() + 1)))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn blocks_take_their_micro_batches_in_order_and_are_combined_by_position() {
    let (sums, _) = summed(&[0, 0, 1, 3, 3, 3], &[], &options(4, 1)).unwrap();
    assert_eq!(text(&sums[1]), "[[ 0 1 +  2] +  3 4 5]");
    // The tied embedding comes after the head.
    assert_eq!(text(&sums[0]), "[[[ 0 1 +  0e 1e] + [ 2 +  2e]] + [ 3 4 5 +  3e 4e 5e]]");
}

#[test]
fn blocks_come_in_ascending_order_and_below_their_number() {
    for (blocks, ends) in [(&[1, 0][..], &[][..]), (&[1, 0], &[1]), (&[0, 4], &[])] {
        let error = summed(blocks, ends, &options(4, 1)).unwrap_err().to_string();
        assert!(error.starts_with("block of a micro-batch is "), "{error}");
    }
}

#[test]
fn numbers_of_blocks_that_make_no_tree_are_refused() {
    for blocks in [0, 3, 2048] {
        assert!(validate_blocks(&options(blocks, 1)).unwrap_err().to_string().starts_with("gradient_blocks is"));
    }
    let few = NetworkOptions { gradients_at_once: 3, ..options(8, 1) };
    assert_eq!(validate_blocks(&few).unwrap_err().to_string(), "gradients_at_once is 3, allowed: 4 or more");
    validate_blocks(&NetworkOptions { gradients_at_once: 1, ..options(1, 9) }).unwrap();
}

#[test]
fn one_thread_needs_a_gradient_for_each_level_and_more_threads_one_each_up_to_the_blocks() {
    let at_once = |blocks| [1, 2, 4, 64].map(|threads| most_gradients(blocks, threads));
    assert_eq!(at_once(1), [1; 4]);
    assert_eq!(at_once(2), [2; 4]);
    assert_eq!(at_once(8), [4, 5, 7, 8]);
}

#[test]
fn of_several_failures_the_first_is_returned_and_no_thread_waits_for_it() {
    let kernels = Words::default();
    let workers = Workers::new(4).unwrap();
    let parameters = Parameters::described(&tiny()).unwrap();
    let batches: Vec<_> = (0..12).map(|_| Packed::default().in_block(0)).collect();
    let failed = Sums::new(&options(1, 4)).pass(&kernels, &parameters, &workers, &batches, |index, sums| {
        drop(sums.of(ParameterId::at(0))?);
        match index {
            2 | 3 => Err(ModelError::Loss(format!("micro-batch {index}").into())),
            _ => sums.of(ParameterId::at(1)).map(drop),
        }
    });
    assert_eq!(failed.err().unwrap().to_string(), "micro-batch 2");
}

#[test]
fn a_thread_that_panics_leaves_no_other_waiting() {
    let kernels = Words::default();
    let workers = Workers::new(2).unwrap();
    let parameters = Parameters::described(&tiny()).unwrap();
    let batches: Vec<_> = (0..6).map(|_| Packed::default().in_block(0)).collect();
    let pass = || {
        Sums::new(&options(1, 2)).pass(&kernels, &parameters, &workers, &batches, |index, sums| {
            assert!(index != 1, "out of luck");
            sums.of(ParameterId::at(0)).map(drop)
        })
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(pass)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn threads_calls_and_memory_decide_nothing_but_how_many_gradients_there_are_at_a_time(
        height in 0u32..4,
        mut places in prop::collection::vec(0usize..8, 1..40),
        mut ends in prop::collection::vec(0usize..40, 0..4),
        threads in 1usize..9,
        spare in 0usize..4,
    ) {
        let blocks = 1 << height;
        places.iter_mut().for_each(|place| *place %= blocks);
        places.sort_unstable();
        ends.iter_mut().for_each(|end| *end = (*end).min(places.len()));
        ends.sort_unstable();
        let (expected, alone) = summed(&places, &[], &options(blocks, 1)).unwrap();
        prop_assert!(alone <= fewest_gradients(blocks), "{alone} of {blocks}");
        let limited = NetworkOptions { gradients_at_once: fewest_gradients(blocks) + spare, ..options(blocks, threads) };
        let (sums, peak) = summed(&places, &ends, &limited).unwrap();
        prop_assert_eq!(sums, expected);
        prop_assert!(peak <= limited.gradients_at_once.min(most_gradients(blocks, threads)), "{} of {:?}", peak, limited);
    }
}
