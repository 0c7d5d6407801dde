//! The fused kernels with a fault in how segments continue a prefix.

use candle_core::Tensor;
use evenkeel_model::kernels::cpu::{Cpu, Matrix, RotaryTable};
use evenkeel_model::kernels::{
    Arrays, Attention, AttentionForward, Head, HeadGradients, HeadInput, HeadInputGradients, HeadNorm, HeadShape,
    Linear, RmsNorm, Rotary, RotaryDirection, Rows, SwiGlu,
};
use evenkeel_model::{Coefficients, Config, Result, Scores, Segment};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// Keys and values of another group's prompt.
    OtherPrefix,
    /// From the second response on, positions are one too far.
    PositionsOffByOne,
    /// A response sees the one before it.
    SeesItsNeighbour,
    /// A prompt's keys and values get the gradient of their own queries only.
    GradientLost,
}

pub struct Faulty(pub Cpu, pub Fault);

impl Faulty {
    fn segments(&self, segments: &[Segment]) -> Vec<Segment> {
        let prefixes: Vec<_> = segments.iter().map(|segment| segment.prefix).filter(|p| p.length > 0).collect();
        let mut changed = segments.to_vec();
        for (number, segment) in changed.iter_mut().enumerate().filter(|(_, segment)| segment.prefix.length > 0) {
            match self.1 {
                Fault::OtherPrefix => {
                    let other = prefixes.iter().find(|other| **other != segment.prefix);
                    segment.prefix = other.copied().unwrap_or(segment.prefix);
                }
                Fault::SeesItsNeighbour if segments[number - 1].prefix == segment.prefix => {
                    segment.prefix.length = segment.rows.first - segment.prefix.first;
                }
                _ => {}
            }
        }
        changed
    }
}

impl Arrays for Faulty {
    type Matrix = Matrix;
    type Gradient = Vec<f32>;
    const SERVES_THREADS: bool = true;

    fn zero_gradient(&self, parameter: &Tensor) -> Result<Vec<f32>> {
        self.0.zero_gradient(parameter)
    }
    fn add_gradient(&self, into: &mut Vec<f32>, other: Vec<f32>) -> Result<()> {
        self.0.add_gradient(into, other)
    }
    fn gradient_tensor(&self, gradient: Vec<f32>, parameter: &Tensor) -> Result<Tensor> {
        self.0.gradient_tensor(gradient, parameter)
    }
    fn to_host(&self, matrix: &Matrix) -> Result<Vec<f32>> {
        self.0.to_host(matrix)
    }
}

impl Attention for Faulty {
    fn attention(
        &self,
        q: &Matrix,
        k: &Matrix,
        v: &Matrix,
        shape: HeadShape,
        segments: &[Segment],
    ) -> Result<(Matrix, Matrix)> {
        self.0.attention(q, k, v, shape, &self.segments(segments))
    }
    fn attention_backward(
        &self,
        dout: &Matrix,
        forward: AttentionForward<'_, Matrix>,
        shape: HeadShape,
        segments: &[Segment],
    ) -> Result<[Matrix; 3]> {
        let [dq, mut dk, dv] = self.0.attention_backward(dout, forward, shape, &self.segments(segments))?;
        if self.1 == Fault::GradientLost {
            for segment in segments {
                let width = dk.width();
                dk[segment.prefix.first * width..][..segment.prefix.length * width].fill(0.0);
            }
        }
        Ok([dq, dk, dv])
    }
}

impl Rotary for Faulty {
    type RotaryTable = RotaryTable;

    fn rotary_table(&self, config: &Config) -> Result<RotaryTable> {
        self.0.rotary_table(config)
    }
    fn rotary(&self, x: Matrix, table: &RotaryTable, positions: &[u32], direction: RotaryDirection) -> Result<Matrix> {
        let mut positions = positions.to_vec();
        if self.1 == Fault::PositionsOffByOne {
            let honest = positions.clone();
            let mut is_later = false;
            for at in 1..positions.len() {
                is_later = honest[at] != 0 && (is_later || honest[at] <= honest[at - 1]);
                positions[at] += u32::from(is_later);
            }
        }
        self.0.rotary(x, table, &positions, direction)
    }
}

impl HeadNorm for Faulty {}

impl Rows for Faulty {
    fn embed(&self, table: &Tensor, ids: &[u32]) -> Result<Matrix> {
        self.0.embed(table, ids)
    }
    fn embed_backward(&self, dy: &Matrix, ids: &[u32], table: &mut Vec<f32>) -> Result<()> {
        self.0.embed_backward(dy, ids, table)
    }
    fn select_rows(&self, x: &Matrix, rows: &[u32]) -> Result<Matrix> {
        self.0.select_rows(x, rows)
    }
    fn scatter_rows(&self, dy: &Matrix, rows: &[u32], total: usize) -> Result<Matrix> {
        self.0.scatter_rows(dy, rows, total)
    }
}

impl Linear for Faulty {
    fn linear(&self, x: &Matrix, weight: &Tensor, bias: Option<&Tensor>, add: Option<&Matrix>) -> Result<Matrix> {
        self.0.linear(x, weight, bias, add)
    }
    fn linear_backward_input(&self, dy: &Matrix, weight: &Tensor, into: Option<Matrix>) -> Result<Matrix> {
        self.0.linear_backward_input(dy, weight, into)
    }
    fn linear_backward_weight(&self, dy: &Matrix, x: &Matrix, weight: &mut Vec<f32>) -> Result<()> {
        self.0.linear_backward_weight(dy, x, weight)
    }
    fn linear_backward_bias(&self, dy: &Matrix, bias: &mut Vec<f32>) -> Result<()> {
        self.0.linear_backward_bias(dy, bias)
    }
}

impl RmsNorm for Faulty {
    fn rms_norm(&self, x: &Matrix, weight: &Tensor, epsilon: f64) -> Result<Matrix> {
        self.0.rms_norm(x, weight, epsilon)
    }
    fn rms_norm_backward(
        &self,
        dy: &Matrix,
        x: &Matrix,
        weight: &Tensor,
        epsilon: f64,
        grad: &mut Vec<f32>,
        into: Option<Matrix>,
    ) -> Result<Matrix> {
        self.0.rms_norm_backward(dy, x, weight, epsilon, grad, into)
    }
}

impl SwiGlu for Faulty {
    fn swiglu(&self, gate: &Matrix, up: &Matrix) -> Result<Matrix> {
        self.0.swiglu(gate, up)
    }
    fn swiglu_backward(&self, dy: &Matrix, gate: &Matrix, up: &Matrix) -> Result<[Matrix; 2]> {
        self.0.swiglu_backward(dy, gate, up)
    }
}

impl Head for Faulty {
    type Kept = <Cpu as Head>::Kept;

    fn head(&self, hidden: &Matrix, input: HeadInput<'_, Matrix>) -> Result<(Scores, Self::Kept)> {
        self.0.head(hidden, input)
    }
    fn head_backward(
        &self,
        hidden: &Matrix,
        input: HeadInput<'_, Matrix>,
        scores: &Scores,
        kept: Self::Kept,
        coefficients: &Coefficients,
        gradients: HeadGradients<'_, Vec<f32>>,
    ) -> Result<HeadInputGradients<Matrix>> {
        self.0.head_backward(hidden, input, scores, kept, coefficients, gradients)
    }
}
