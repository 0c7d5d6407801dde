//! Causal attention of packed sequences as graphs of the operations that the library knows as one: the pattern of
//! NVIDIA's own cudnn-frontend (`scaled_dot_product_flash_attention.h`), which the library's engines recognise and
//! fuse.

use evenkeel_kernels::{FusedPass, FusedShape};

use super::CudnnError;
use super::api::Api;
use super::arrays::{
    BEHIND, DK, DK_HEADS, DOTS, DOUT, DQ, DQ_SUM, DV, DV_HEADS, FUTURE, K, KEY_LENGTHS, LOG_SUM, OFFSETS, ONE, OUT, Q,
    QUERY_LENGTHS, SCALE, V,
};
use super::constants::{Attribute, DataType, Pointwise, Reduction};
use super::graph::{Graph, Layout, OperationGraph, Tensor};

/// The graph of a pass.
pub(super) fn graph(api: &'static Api, shape: FusedShape, pass: FusedPass) -> Result<OperationGraph, CudnnError> {
    shape.validate()?;
    let mut attention = Attention::new(api, shape)?;
    match pass {
        FusedPass::Forward => attention.forward()?,
        FusedPass::Backward | FusedPass::DeterministicBackward => attention.backward(pass)?,
    }
    attention.graph.finalize()
}

/// What both passes have.
struct Attention {
    graph: Graph,
    shape: FusedShape,
    /// Layout of the queries, and of everything that has their shape.
    of_queries: Layout,
    of_keys: Layout,
    /// One value for each query.
    of_sums: Layout,
    /// One value for each query and key.
    of_scores: Layout,
    lengths: [Tensor; 2],
    scale: Tensor,
    masked: [Tensor; 2],
}

impl Attention {
    fn new(api: &'static Api, shape: FusedShape) -> Result<Self, CudnnError> {
        let mut graph = Graph::new(api);
        let [sequences, longest, heads, kv_heads, dim] =
            [shape.sequences, shape.longest, shape.heads, shape.kv_heads, shape.dim].map(|size| size as i64);
        let of_heads = |heads: i64| Layout {
            dimensions: [sequences, heads, longest, dim],
            strides: [longest * heads * dim, dim, heads * dim, 1],
        };
        let mut length = |id| graph.array(id, DataType::I32, Layout::rows([sequences, 1, 1, 1]), None);
        Ok(Self {
            shape,
            of_queries: of_heads(heads),
            of_keys: of_heads(kv_heads),
            of_sums: Layout { dimensions: [sequences, heads, longest, 1], strides: [longest * heads, 1, heads, 1] },
            of_scores: Layout::rows([sequences, heads, longest, longest]),
            lengths: [length(QUERY_LENGTHS)?, length(KEY_LENGTHS)?],
            scale: graph.number(SCALE)?,
            masked: [graph.number(BEHIND)?, graph.number(FUTURE)?],
            graph,
        })
    }

    /// A packed array, whose sequences begin where offsets say, and the offsets.
    fn packed(&mut self, id: i64, kind: DataType, layout: Layout) -> Result<(Tensor, Tensor), CudnnError> {
        let ends = Layout::rows([self.shape.sequences as i64 + 1, 1, 1, 1]);
        let offsets = self.graph.array(OFFSETS + id, DataType::I32, ends, None)?;
        Ok((self.graph.array(id, kind, layout, Some(offsets))?, offsets))
    }

    fn bf16(&mut self, id: i64, layout: Layout) -> Result<Tensor, CudnnError> {
        self.packed(id, DataType::Bf16, layout).map(|(tensor, _)| tensor)
    }

    fn scores(&mut self, kind: DataType) -> Result<Tensor, CudnnError> {
        let layout = self.of_scores;
        self.graph.between(kind, layout, None)
    }

    /// mode(x, b) of scores.
    fn of_two(&mut self, mode: Pointwise, x: Tensor, b: Option<Tensor>) -> Result<Tensor, CudnnError> {
        let y = self.scores(DataType::F32)?;
        self.graph.pointwise(mode, x, b, None, y)?;
        Ok(y)
    }

    /// x yᵀ of queries and keys, or of what has their shapes.
    fn pairs(&mut self, x: Tensor, y: Tensor) -> Result<Tensor, CudnnError> {
        let scores = self.scores(DataType::F32)?;
        let lengths =
            [(Attribute::OperationProductRows, self.lengths[0]), (Attribute::OperationProductColumns, self.lengths[1])];
        self.graph.product([x, y, scores], &lengths)?;
        Ok(scores)
    }

    /// q kᵀ / sqrt(dim).
    fn scaled(&mut self, q: Tensor, k: Tensor) -> Result<Tensor, CudnnError> {
        let scores = self.pairs(q, k)?;
        let y = self.scores(DataType::F32)?;
        self.graph.pointwise(Pointwise::Multiply, scores, Some(self.scale), None, y)?;
        Ok(y)
    }

    /// The scores of a sequence's own tokens up to the query's; others become minus infinity.
    fn mask(&mut self, scores: Tensor) -> Result<Tensor, CudnnError> {
        // Within the lengths.
        let mut within = Vec::with_capacity(2);
        let indices = [self.scores(DataType::I32)?, self.scores(DataType::I32)?];
        for (axis, index) in [2, 3].into_iter().zip(indices) {
            self.graph.index(axis, DataType::I32, scores, index)?;
        }
        for (index, length) in indices.into_iter().zip(self.lengths) {
            let is_less = self.graph.between(DataType::Bool, self.of_scores, None)?;
            self.graph.pointwise(Pointwise::Less, index, Some(length), None, is_less)?;
            within.push(is_less);
        }
        let both = self.scores(DataType::Bool)?;
        self.graph.pointwise(Pointwise::And, within[0], Some(within[1]), None, both)?;
        let scores = self.select(scores, both, 0)?;
        // Not in the future.
        let [row, column] = [self.scores(DataType::I32)?, self.scores(DataType::I32)?];
        self.graph.index(2, DataType::F32, scores, row)?;
        self.graph.index(3, DataType::F32, scores, column)?;
        let past = self.scores(DataType::Bool)?;
        self.graph.pointwise(Pointwise::GreaterOrEqual, row, Some(column), None, past)?;
        self.select(scores, past, 1)
    }

    fn select(&mut self, scores: Tensor, condition: Tensor, masked: usize) -> Result<Tensor, CudnnError> {
        let y = self.scores(DataType::F32)?;
        self.graph.pointwise(Pointwise::Select, scores, Some(self.masked[masked]), Some(condition), y)?;
        Ok(y)
    }

    fn forward(&mut self) -> Result<(), CudnnError> {
        let q = self.bf16(Q, self.of_queries)?;
        let k = self.bf16(K, self.of_keys.t())?;
        let v = self.bf16(V, self.of_keys)?;
        let out = self.bf16(OUT, self.of_queries)?;
        let (log_sum, _) = self.packed(LOG_SUM, DataType::F32, self.of_sums)?;

        let scores = self.scaled(q, k)?;
        let scores = self.mask(scores)?;
        let of_rows = Layout::rows(self.of_sums.dimensions);
        let row = |graph: &mut Graph| graph.between(DataType::F32, of_rows, None);
        let largest = row(&mut self.graph)?;
        self.graph.reduce(Reduction::Max, scores, largest)?;
        let below = self.of_two(Pointwise::Subtract, scores, Some(largest))?;
        let weights = self.of_two(Pointwise::Exp, below, None)?;
        let sum = row(&mut self.graph)?;
        let log = row(&mut self.graph)?;
        self.graph.reduce(Reduction::Sum, weights, sum)?;
        self.graph.pointwise(Pointwise::Log, sum, None, None, log)?;
        self.graph.pointwise(Pointwise::Add, largest, Some(log), None, log_sum)?;
        let weights = {
            let narrow = self.scores(DataType::Bf16)?;
            self.graph.pointwise(Pointwise::Divide, weights, Some(sum), None, narrow)?;
            narrow
        };
        let lengths =
            [(Attribute::OperationProductRows, self.lengths[0]), (Attribute::OperationProductInner, self.lengths[1])];
        self.graph.product([weights, v, out], &lengths)
    }

    fn backward(&mut self, pass: FusedPass) -> Result<(), CudnnError> {
        let q = self.bf16(Q, self.of_queries)?;
        let (k, key_offsets) = self.packed(K, DataType::Bf16, self.of_keys.t())?;
        let v = self.bf16(V, self.of_keys.t())?;
        let [out, dout] = [self.bf16(OUT, self.of_queries)?, self.bf16(DOUT, self.of_queries)?];
        let (log_sum, sum_offsets) = self.packed(LOG_SUM, DataType::F32, self.of_sums)?;
        let (dq, query_offsets) = self.packed(DQ, DataType::Bf16, self.of_queries)?;
        let dk = self.packed(DK, DataType::Bf16, self.of_keys)?;
        let dv = self.packed(DV, DataType::Bf16, self.of_keys)?;

        let dots = self.dots(dout, out, sum_offsets)?;
        let scores = self.scaled(q, k)?;
        // Masked first, as the library's front end does: engines are recognised by the order of operations.
        let scores = self.mask(scores)?;
        let below = self.of_two(Pointwise::Subtract, scores, Some(log_sum))?;
        let weights = self.of_two(Pointwise::Exp, below, None)?;
        self.of_each_key(weights, dout, DV_HEADS, dv)?;

        let dweights = self.pairs(dout, v)?;
        let dscores = self.of_two(Pointwise::Subtract, dweights, Some(dots))?;
        let dscores = self.of_two(Pointwise::Multiply, dscores, Some(weights))?;
        let scaled = self.scores(DataType::F32)?;
        self.graph.pointwise(Pointwise::Multiply, dscores, Some(self.scale), None, scaled)?;
        self.of_each_key(scaled, q, DK_HEADS, dk)?;

        let keys = self.graph.between(DataType::F32, self.of_keys, Some(key_offsets))?;
        self.graph.reshape(k, keys)?;
        let lengths =
            [(Attribute::OperationProductRows, self.lengths[0]), (Attribute::OperationProductInner, self.lengths[1])];
        if pass.sums_dq() {
            let sum = self.graph.array(DQ_SUM, DataType::F32, self.of_queries, Some(query_offsets))?;
            self.graph.product([scaled, keys, sum], &lengths)?;
            self.graph.pointwise(Pointwise::Identity, sum, None, None, dq)
        } else {
            self.graph.product([scaled, keys, dq], &lengths)
        }
    }

    /// The sum of output times gradient for each query.
    fn dots(&mut self, dout: Tensor, out: Tensor, offsets: Tensor) -> Result<Tensor, CudnnError> {
        let dimensions = self.of_queries.dimensions;
        let [_, heads, longest, dim] = dimensions;
        let strides = [longest * heads * dim, longest * dim, heads * dim, 1];
        let products = self.graph.between(DataType::F32, Layout { dimensions, strides }, None)?;
        self.graph.pointwise(Pointwise::Multiply, dout, Some(out), None, products)?;
        let sums = self.graph.between(DataType::F32, Layout::rows(self.of_sums.dimensions), None)?;
        self.graph.reduce(Reduction::Sum, products, sums)?;
        // Without dropout they are multiplied by one; the pattern has the operation.
        let one = self.graph.number(ONE)?;
        let dots = self.graph.array(DOTS, DataType::F32, self.of_sums, Some(offsets))?;
        self.graph.pointwise(Pointwise::Multiply, sums, Some(one), None, dots)?;
        Ok(dots)
    }

    /// xᵀ y of scores and queries, summed over the query heads that share a key.
    fn of_each_key(
        &mut self,
        x: Tensor,
        y: Tensor,
        heads: i64,
        (to, offsets): (Tensor, Tensor),
    ) -> Result<(), CudnnError> {
        let transposed = self.graph.between(DataType::Bf16, self.of_scores.t(), None)?;
        self.graph.reshape(x, transposed)?;
        let lengths =
            [(Attribute::OperationProductRows, self.lengths[1]), (Attribute::OperationProductInner, self.lengths[0])];
        if !self.shape.shares_keys() {
            return self.graph.product([transposed, y, to], &lengths);
        }
        // The library multiplies the keys' offsets by the number of heads that share one.
        let by_head = self.graph.array(heads, DataType::Bf16, self.of_queries, Some(offsets))?;
        self.graph.product([transposed, y, by_head], &lengths)?;
        self.graph.reduce(Reduction::Sum, by_head, to)
    }
}
