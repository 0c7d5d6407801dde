//! Causal attention by products over blocks of queries, with our own softmax between them. It serves every compute type
//! and head dimension, and the same launches give the same bits.

use evenkeel_kernels::{HeadRows, Operand, Pointer, Product, ScoreBlock, Type};

use super::sequences::sequences;
use super::{Cuda, Device, Matrix};
use crate::error::Result;
use crate::kernels::{AttentionForward, HeadShape, chunks};
use crate::segment::RowSpan;

/// The keys or the values of a sequence as every query head reads them, (length, heads * dim): repeated, or the rows of
/// the matrix itself.
struct SharedHeads<M> {
    operand: Operand,
    _memory: Option<Matrix<M>>,
}

impl<D: Device> Cuda<D> {
    pub(super) fn attention_in_blocks(
        &self,
        q: &Matrix<D::Memory>,
        k: &Matrix<D::Memory>,
        v: &Matrix<D::Memory>,
        shape: HeadShape,
        starts: &[usize],
    ) -> Result<[Matrix<D::Memory>; 2]> {
        let out = self.blank(q.rows(), q.width())?;
        let log_sum = self.blank_of(Type::F32, q.rows(), shape.heads)?;
        for rows in sequences(starts) {
            let keys = self.shared(k, rows, shape)?;
            let values = self.shared(v, rows, shape)?;
            let scores = self.scores(rows, shape, Type::F32)?;
            let narrow = self.narrow(rows, shape)?;
            let weights = narrow.as_ref().unwrap_or(&scores);
            for (offset, queries) in chunks(rows.length, self.attention_block) {
                let block = self.block(shape, offset, queries);
                let row = rows.first + offset;
                self.multiply(block_scores(block, q.operand(row), keys.operand, shape, scores.at()))?;
                self.run(block.softmax(self.device.properties(), scores.at(), weights.at(), log_sum.row(row)))?;
                let to = out.operand(row).every(shape.dim);
                let sizes = [queries, block.keys, shape.dim];
                let weights = of_block(block, self.kind, weights.at());
                self.multiply(Product::new(sizes, weights, values.operand, to).batch(shape.heads))?;
            }
        }
        Ok([out, log_sum])
    }

    pub(super) fn attention_in_blocks_backward(
        &self,
        dout: &Matrix<D::Memory>,
        forward: AttentionForward<'_, Matrix<D::Memory>>,
        shape: HeadShape,
        starts: &[usize],
    ) -> Result<[Matrix<D::Memory>; 3]> {
        let AttentionForward { q, k, v, out, log_sum } = forward;
        let properties = self.device.properties();
        let [dq, dk, dv] =
            [self.blank(q.rows(), q.width())?, self.blank(k.rows(), k.width())?, self.blank(v.rows(), v.width())?];
        let dots = self.blank_of(Type::F32, q.rows(), shape.heads)?;
        self.run(self.heads(shape, q.rows()).dots(properties, dout.at(), out.at(), dots.at()))?;
        for rows in sequences(starts) {
            let keys = self.shared(k, rows, shape)?;
            let values = self.shared(v, rows, shape)?;
            let [dkeys, dvalues] = [self.sums(rows, shape)?, self.sums(rows, shape)?];
            let [scores, dweights] = [self.scores(rows, shape, Type::F32)?, self.scores(rows, shape, Type::F32)?];
            let [narrow, dnarrow] = [self.narrow(rows, shape)?, self.narrow(rows, shape)?];
            let weights = narrow.as_ref().unwrap_or(&scores);
            let dscores = dnarrow.as_ref().unwrap_or(&dweights);
            for (offset, queries) in chunks(rows.length, self.attention_block) {
                let block = self.block(shape, offset, queries);
                let row = rows.first + offset;
                let [query, dquery] = [q, dout].map(|matrix| matrix.operand(row).every(shape.dim));
                self.multiply(block_scores(block, query, keys.operand, shape, scores.at()))?;
                self.multiply(block_scores(block, dquery, values.operand, shape, dweights.at()))?;
                let inputs = [scores.at(), dweights.at()];
                let of_rows = [log_sum.row(row), dots.row(row)];
                self.run(block.gradients(properties, inputs, of_rows, [weights.at(), dscores.at()]))?;

                let [weights, dscores] = [weights, dscores].map(|matrix| of_block(block, self.kind, matrix.at()));
                let sizes = [block.keys, queries, shape.dim];
                for (left, right, sum) in [(weights, dquery, &dvalues), (dscores, query, &dkeys)] {
                    let to = sum.operand(0).every(shape.dim);
                    self.multiply(Product::new(sizes, left.t(), right, to).plus(sum.at()).batch(shape.heads))?;
                }
                let to = dq.operand(row).every(shape.dim);
                let sizes = [queries, block.keys, shape.dim];
                self.multiply(Product::new(sizes, dscores, keys.operand, to).batch(shape.heads))?;
            }
            let heads = self.heads(shape, rows.length);
            self.run(heads.sum(properties, dkeys.at(), dk.row(rows.first)))?;
            self.run(heads.sum(properties, dvalues.at(), dv.row(rows.first)))?;
        }
        Ok([dq, dk, dv])
    }

    fn block(&self, shape: HeadShape, offset: usize, queries: usize) -> ScoreBlock {
        let heads = shape.heads;
        let scale = shape.scale();
        ScoreBlock { kind: self.kind, heads, queries, keys: offset + queries, offset, scale }
    }

    fn heads(&self, shape: HeadShape, rows: usize) -> HeadRows {
        HeadRows { kind: self.kind, rows, heads: shape.heads, kv_heads: shape.kv_heads, dim: shape.dim }
    }

    fn shared(&self, x: &Matrix<D::Memory>, rows: RowSpan, shape: HeadShape) -> Result<SharedHeads<D::Memory>> {
        if shape.heads == shape.kv_heads {
            return Ok(SharedHeads { operand: x.operand(rows.first).every(shape.dim), _memory: None });
        }
        let repeated = self.blank(rows.length, shape.heads * shape.dim)?;
        let heads = self.heads(shape, rows.length);
        self.run(heads.repeat(self.device.properties(), x.row(rows.first), repeated.at()))?;
        Ok(SharedHeads { operand: repeated.operand(0).every(shape.dim), _memory: Some(repeated) })
    }

    /// Memory for the scores of the largest block of a sequence.
    fn scores(&self, rows: RowSpan, shape: HeadShape, kind: Type) -> Result<Matrix<D::Memory>> {
        let queries = self.attention_block.min(rows.length);
        let last = self.block(shape, rows.length - queries, queries);
        self.blank_of(kind, shape.heads * queries, last.stride())
    }

    /// Memory for those scores in the compute type; `None` where the scores are in it already.
    fn narrow(&self, rows: RowSpan, shape: HeadShape) -> Result<Option<Matrix<D::Memory>>> {
        (self.kind != Type::F32).then(|| self.scores(rows, shape, self.kind)).transpose()
    }

    /// fp32 zeros, (length, heads * dim).
    fn sums(&self, rows: RowSpan, shape: HeadShape) -> Result<Matrix<D::Memory>> {
        let width = shape.heads * shape.dim;
        let memory = self.device.zeros(4 * rows.length * width)?;
        Ok(Matrix::new(self.device.address(&memory), memory, Type::F32, [rows.length, width]))
    }
}

/// x yᵀ of every head in fp32, with x rows of queries and y those of keys.
fn block_scores(block: ScoreBlock, x: Operand, y: Operand, shape: HeadShape, to: Pointer) -> Product {
    let to = of_block(block, Type::F32, to);
    Product::new([block.queries, shape.dim, block.keys], x.every(shape.dim), y.t(), to).batch(shape.heads)
}

/// Scores, probabilities or their gradients.
fn of_block(block: ScoreBlock, kind: Type, at: Pointer) -> Operand {
    Operand::rows(at, kind, block.stride()).every(block.queries * block.stride())
}
