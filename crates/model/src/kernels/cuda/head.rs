//! Log-probabilities, entropies and their gradients over chunks of fp32 logits.

use evenkeel_kernels::{Logits, Operand, Pointer, Product, Type, logit_gradients, token_scores};

use super::matrix::floats;
use super::{Cuda, Device, Gradient, Matrix};
use crate::error::Result;
use crate::kernels::{Coefficients, Head, HeadGradients, HeadInput, HeadInputGradients, Scores, chunks};

/// What the backward pass needs of the forward pass.
pub struct Kept<M> {
    /// Log-probabilities in the first row, entropies in the second: the host reads them in one copy.
    scores: Matrix<M>,
    /// One for each row of the hidden states.
    log_sum: Matrix<M>,
}

impl<M> Kept<M> {
    fn logp(&self, row: usize) -> Pointer {
        Pointer(self.scores.row(0).0 + 4 * row as u64)
    }

    fn entropy(&self, row: usize) -> Pointer {
        Pointer(self.scores.row(1).0 + 4 * row as u64)
    }
}

/// The weight, and B of an adapter, in the compute type; the ids, and memory for the logits of a chunk.
struct Chunks<M> {
    weight: super::Weight<M>,
    b: Option<super::Weight<M>>,
    targets: Matrix<M>,
    logits: Matrix<M>,
}

impl<D: Device> Head for Cuda<D> {
    type Kept = Kept<D::Memory>;

    fn head(&self, hidden: &Self::Matrix, input: HeadInput<'_, Self::Matrix>) -> Result<(Scores, Self::Kept)> {
        let all = self.chunks_of(hidden, input)?;
        let kept = self.kept(hidden.rows())?;
        for (first, rows) in chunks(hidden.rows(), input.chunk_rows) {
            let logits = self.logits(hidden, &all, input, (first, rows))?;
            self.score(logits, &kept, first)?;
        }
        // The one point of a pass where the host waits.
        Ok((self.read_scores(&kept)?, kept))
    }

    fn head_backward(
        &self,
        hidden: &Self::Matrix,
        input: HeadInput<'_, Self::Matrix>,
        _scores: &Scores,
        kept: Self::Kept,
        coefficients: &Coefficients,
        gradients: HeadGradients<'_, Gradient<D::Memory>>,
    ) -> Result<HeadInputGradients<Self::Matrix>> {
        let back = self.backward_pass(hidden, input, coefficients)?;
        for (first, rows) in chunks(hidden.rows(), input.chunk_rows) {
            let logits = self.logits(hidden, &back.all, input, (first, rows))?;
            self.add_gradients((hidden, input), &back, (logits, first), &kept, &gradients)?;
        }
        Ok(HeadInputGradients { hidden: back.dhidden, inner: back.dinner })
    }

    fn has_head_at_once(&self) -> bool {
        self.variants.one_pass_head
    }

    fn head_at_once(
        &self,
        hidden: &Self::Matrix,
        input: HeadInput<'_, Self::Matrix>,
        coefficients: &Coefficients,
        gradients: HeadGradients<'_, Gradient<D::Memory>>,
    ) -> Result<(Scores, HeadInputGradients<Self::Matrix>)> {
        let kept = self.kept(hidden.rows())?;
        let back = self.backward_pass(hidden, input, coefficients)?;
        for (first, rows) in chunks(hidden.rows(), input.chunk_rows) {
            let logits = self.logits(hidden, &back.all, input, (first, rows))?;
            self.score(logits, &kept, first)?;
            self.add_gradients((hidden, input), &back, (logits, first), &kept, &gradients)?;
        }
        Ok((self.read_scores(&kept)?, HeadInputGradients { hidden: back.dhidden, inner: back.dinner }))
    }
}

/// What a backward pass over the chunks reads and writes.
struct Backward<M> {
    all: Chunks<M>,
    /// Coefficients of each row: of log-probabilities, and of entropies.
    coefficients: [Matrix<M>; 2],
    dhidden: Matrix<M>,
    dinner: Option<Matrix<M>>,
    /// Gradients of a chunk's logits; in fp32 they replace the logits.
    narrow: Option<Matrix<M>>,
}

impl<D: Device> Cuda<D> {
    fn kept(&self, rows: usize) -> Result<Kept<D::Memory>> {
        Ok(Kept { scores: self.blank_of(Type::F32, 2, rows)?, log_sum: self.blank_of(Type::F32, rows, 1)? })
    }

    /// Launches the scores of a chunk.
    fn score(&self, logits: Logits, kept: &Kept<D::Memory>, first: usize) -> Result<()> {
        let to = [kept.logp(first), kept.entropy(first), kept.log_sum.row(first)];
        self.run(token_scores(self.device.properties(), logits, to))
    }

    /// The scores on the host, which waits for them.
    fn read_scores(&self, kept: &Kept<D::Memory>) -> Result<Scores> {
        let bytes = self.device.download(kept.scores.memory(), 4 * kept.scores.values())?;
        let mut logp = floats(Type::F32, &bytes);
        let entropy = logp.split_off(kept.log_sum.rows());
        Ok(Scores { logp, entropy })
    }

    fn backward_pass(
        &self,
        hidden: &Matrix<D::Memory>,
        input: HeadInput<'_, Matrix<D::Memory>>,
        coefficients: &Coefficients,
    ) -> Result<Backward<D::Memory>> {
        let all = self.chunks_of(hidden, input)?;
        let dlogp = self.column(self.upload_floats(&coefficients.logp)?, hidden.rows());
        let dentropy = self.column(self.upload_floats(&coefficients.entropy)?, hidden.rows());
        let dhidden = self.blank(hidden.rows(), hidden.width())?;
        let dinner = input.adapter.map(|adapter| self.blank(hidden.rows(), adapter.inner.width())).transpose()?;
        let narrow = match self.kind {
            Type::F32 => None,
            kind => Some(self.blank_of(kind, all.logits.rows(), all.logits.width())?),
        };
        Ok(Backward { all, coefficients: [dlogp, dentropy], dhidden, dinner, narrow })
    }

    /// Launches the gradients of a chunk whose logits and scores are computed.
    fn add_gradients(
        &self,
        (hidden, input): (&Matrix<D::Memory>, HeadInput<'_, Matrix<D::Memory>>),
        back: &Backward<D::Memory>,
        (logits, first): (Logits, usize),
        kept: &Kept<D::Memory>,
        gradients: &HeadGradients<'_, Gradient<D::Memory>>,
    ) -> Result<()> {
        let Backward { all, coefficients, dhidden, dinner, narrow } = back;
        let rows = logits.rows;
        let vocabulary = logits.vocabulary;
        let dlogits = narrow.as_ref().unwrap_or(&all.logits);
        let scores = [kept.log_sum.row(first), kept.entropy(first)];
        let coefficients = coefficients.each_ref().map(|column| column.row(first));
        let to = (self.kind, dlogits.at());
        self.run(logit_gradients(self.device.properties(), logits, scores, coefficients, to))?;
        let from = (dlogits.operand(0), vocabulary);
        let of_weight = (hidden, &all.weight, gradients.weight.as_deref(), dhidden);
        let of_adapter = input.adapter.zip(all.b.as_ref()).zip(dinner.as_ref());
        let of_adapter = of_adapter.map(|((adapter, b), dinner)| (adapter.inner, b, gradients.b.as_deref(), dinner));
        for (x, weight, sum, dx) in std::iter::once(of_weight).chain(of_adapter) {
            let width = x.width();
            if let Some(sum) = sum {
                self.add_weight_gradient(rows, from, (x.operand(first), width), sum)?;
            }
            let weight = Operand::rows(weight.at, self.kind, width);
            self.multiply(Product::new([rows, vocabulary, width], dlogits.operand(0), weight, dx.operand(first)))?;
        }
        Ok(())
    }
}

impl<D: Device> Cuda<D> {
    fn chunks_of(
        &self,
        hidden: &Matrix<D::Memory>,
        input: HeadInput<'_, Matrix<D::Memory>>,
    ) -> Result<Chunks<D::Memory>> {
        let rows = input.chunk_rows.min(hidden.rows());
        Ok(Chunks {
            weight: self.weight(input.weight)?,
            b: input.adapter.map(|adapter| self.weight(adapter.b)).transpose()?,
            targets: self.column(self.upload_ids(input.targets)?, hidden.rows()),
            logits: self.blank_of(Type::F32, rows, input.weight.dim(0)?)?,
        })
    }

    /// Memory of one 4-byte value for each row.
    fn column(&self, memory: D::Memory, rows: usize) -> Matrix<D::Memory> {
        Matrix::new(self.device.address(&memory), memory, Type::F32, [rows, 1])
    }

    /// Launches the products for the logits of a chunk.
    fn logits(
        &self,
        hidden: &Matrix<D::Memory>,
        all: &Chunks<D::Memory>,
        input: HeadInput<'_, Matrix<D::Memory>>,
        (first, rows): (usize, usize),
    ) -> Result<Logits> {
        let vocabulary = all.logits.width();
        let weight = Operand::rows(all.weight.at, self.kind, hidden.width()).t();
        let sizes = [rows, hidden.width(), vocabulary];
        self.multiply(Product::new(sizes, hidden.operand(first), weight, all.logits.operand(0)))?;
        if let (Some(adapter), Some(b)) = (input.adapter, &all.b) {
            let rank = adapter.inner.width();
            let b = Operand::rows(b.at, self.kind, rank).t();
            let more = Product::new([rows, rank, vocabulary], adapter.inner.operand(first), b, all.logits.operand(0));
            self.multiply(more.plus(all.logits.at()))?;
        }
        Ok(Logits {
            logits: all.logits.at(),
            targets: all.targets.row(first),
            rows,
            vocabulary,
            temperature: input.temperature,
            fast: self.variants.lean_memory,
        })
    }
}
