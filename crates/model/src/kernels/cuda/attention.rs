//! Which way attention is computed.

use evenkeel_kernels::FusedPass;

use super::sequences::starts;
use super::{AttentionFallback, AttentionLibrary, Cuda, Device};
use crate::error::Result;
use crate::kernels::{Attention, AttentionForward, AttentionOptions, HeadShape};
use crate::segment::Segment;

impl<D: Device> Cuda<D> {
    /// Sets how attention is computed; by default with the library where it can, in any order of sums.
    #[must_use]
    pub fn with_attention(self, attention: AttentionOptions) -> Self {
        Self { attention, ..self }
    }

    /// The library that computes attention over heads of this width, or why it is computed in blocks.
    ///
    /// # Errors
    /// The reason.
    pub fn attention_library(&self, dim: usize) -> Result<AttentionLibrary, AttentionFallback> {
        if let Some(reason) = AttentionFallback::of(self.attention, self.kind, dim) {
            return Err(reason);
        }
        self.device.attention_library()
    }
}

impl<D: Device> Attention for Cuda<D> {
    fn attention(
        &self,
        q: &Self::Matrix,
        k: &Self::Matrix,
        v: &Self::Matrix,
        shape: HeadShape,
        segments: &[Segment],
    ) -> Result<(Self::Matrix, Self::Matrix)> {
        let starts = &starts(segments)?;
        let [out, log_sum] = match self.fused(shape, starts, FusedPass::Forward)? {
            Some(fused) => self.fused_attention(q, k, v, &fused)?,
            None => self.attention_in_blocks(q, k, v, shape, starts)?,
        };
        Ok((out, log_sum))
    }

    fn attention_backward(
        &self,
        dout: &Self::Matrix,
        forward: AttentionForward<'_, Self::Matrix>,
        shape: HeadShape,
        segments: &[Segment],
    ) -> Result<[Self::Matrix; 3]> {
        let starts = &starts(segments)?;
        let pass = if self.attention.deterministic { FusedPass::DeterministicBackward } else { FusedPass::Backward };
        match self.fused(shape, starts, pass)? {
            Some(fused) => self.fused_attention_backward(dout, forward, &fused),
            None => self.attention_in_blocks_backward(dout, forward, shape, starts),
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use evenkeel_kernels::{DeviceProperties, Type};

    use super::*;
    use crate::kernels::cuda::{Counter, DeviceCounts};

    fn cuda(compute: DType, attention: AttentionOptions) -> Cuda<Counter> {
        Cuda::new(Counter::new(DeviceProperties { multiprocessors: 132 }), compute).unwrap().with_attention(attention)
    }

    fn passes(cuda: &Cuda<Counter>, shape: HeadShape, starts: &[usize]) -> DeviceCounts {
        let rows = starts[starts.len() - 1];
        let matrix = |heads: usize| cuda.blank(rows, heads * shape.dim).unwrap();
        let [q, k, v, dout] = [shape.heads, shape.kv_heads, shape.kv_heads, shape.heads].map(matrix);
        cuda.device().take();
        let segments = Segment::whole_sequences(starts);
        let (out, log_sum) = cuda.attention(&q, &k, &v, shape, &segments).unwrap();
        let forward = AttentionForward { q: &q, k: &k, v: &v, out: &out, log_sum: &log_sum };
        cuda.attention_backward(&dout, forward, shape, &segments).unwrap();
        cuda.device().take()
    }

    fn names(counts: &DeviceCounts) -> Vec<&str> {
        counts.kernels.keys().map(String::as_str).collect()
    }

    const SHAPE: HeadShape = HeadShape { heads: 16, kv_heads: 8, dim: 128 };

    #[test]
    fn the_library_computes_all_sequences_in_one_call_for_each_pass() {
        let cuda = cuda(DType::BF16, AttentionOptions::default());
        let counts = passes(&cuda, SHAPE, &[0, 100, 100, 1100, 5196]);
        assert_eq!(names(&counts), ["attention by cuDNN, backward", "attention by cuDNN, forward"]);
        assert!(counts.kernels.values().all(|tally| tally.launches == 1));
        // Lengths and offsets are those of the forward pass.
        assert_eq!(counts.uploads.launches, 1);
        // Half of the pairs, and the diagonal.
        let pairs: u64 = [100u64, 1000, 4096].iter().map(|s| s * (s + 1) / 2).sum();
        assert_eq!(counts.total().flops, 14 * pairs * 2048);
    }

    #[test]
    fn a_deterministic_pass_has_as_many_sequences_as_its_workspace_allows() {
        let options = AttentionOptions { deterministic: true, ..AttentionOptions::default() };
        let cuda = cuda(DType::BF16, options);
        let starts: Vec<usize> = (0..=9).map(|n| 4096 * n).collect();
        let counts = passes(&cuda, SHAPE, &starts);
        // Six of 512 MiB each, and three.
        assert_eq!(counts.kernels["attention by cuDNN, backward, deterministic"].launches, 2);
        assert!(counts.peak - counts.live < 6 << 30, "{}", counts.peak - counts.live);
        // One of 16k takes 8 GiB: in blocks, forward by the library.
        let counts = passes(&cuda, SHAPE, &[0, 16_384]);
        let names = names(&counts);
        assert!(names.contains(&"attention by cuDNN, forward"), "{names:?}");
        assert!(names.contains(&"attention_gradients_bf16"), "{names:?}");
    }

    #[test]
    fn other_types_widths_and_settings_are_computed_in_blocks_and_say_why() {
        let blocks = AttentionOptions { library: false, ..AttentionOptions::default() };
        let narrow = HeadShape { dim: 96, ..SHAPE };
        for (compute, attention, shape, reason) in [
            (DType::F32, AttentionOptions::default(), SHAPE, AttentionFallback::ComputeType(Type::F32)),
            (DType::BF16, AttentionOptions::default(), narrow, AttentionFallback::HeadDim(96)),
            (DType::BF16, blocks, SHAPE, AttentionFallback::NotRequested),
        ] {
            let cuda = cuda(compute, attention);
            assert_eq!(cuda.attention_library(shape.dim), Err(reason));
            let counts = passes(&cuda, shape, &[0, 7, 600]);
            assert!(names(&counts).iter().all(|name| !name.contains("cuDNN")), "{:?}", names(&counts));
        }
        // Rows that offsets of 32 bits cannot count.
        let cuda = cuda(DType::BF16, AttentionOptions::default());
        let counts = passes(&cuda, SHAPE, &[0, 100, 1_100_000, 1_100_100]);
        assert!(names(&counts).iter().all(|name| !name.contains("cuDNN")), "{:?}", names(&counts));
    }
}
