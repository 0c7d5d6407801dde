//! A reference implementation with candle's autograd over operators with correct gradients, unpadded, one sequence at a
//! time: the hand-written backward pass is compared with it.

use candle_core::{D, DType, Device, Tensor, Var};
use evenkeel_model::{Config, Packed, Parameters, RopeScaling, RowSpan, Scores, TokenLoss};

pub struct Reference {
    config: Config,
    parameters: Parameters,
    vars: Vec<Var>,
}

impl Reference {
    pub fn new(config: &Config, parameters: &Parameters) -> Self {
        let vars = parameters.values().iter().map(|value| Var::from_tensor(value).unwrap()).collect();
        Self { config: config.clone(), parameters: parameters.clone(), vars }
    }

    /// Gradients in the order of the parameters, of sequences that share no prefix.
    pub fn gradients(&self, batch: &Packed, temperature: f32, loss: &dyn TokenLoss) -> (Scores, Vec<Tensor>) {
        let mut logps = Vec::new();
        let mut entropies = Vec::new();
        for sequence in 0..batch.sequences() {
            let RowSpan { first, length } = batch.segments()[sequence].rows;
            let hidden = self.hidden(&batch.ids()[first..first + length]);
            let scored = batch.scored(sequence);
            let rows: Vec<u32> = batch.rows()[scored.clone()].iter().map(|row| row - first as u32).collect();
            let hidden = hidden.index_select(&Tensor::new(rows, &Device::Cpu).unwrap(), 0).unwrap();
            let head = &self.vars[self.parameters.ids().head.weight.index()];
            let logits = (hidden.matmul(&head.t().unwrap()).unwrap() / f64::from(temperature)).unwrap();
            let largest = logits.max_keepdim(D::Minus1).unwrap().detach();
            let shifted = logits.broadcast_sub(&largest).unwrap();
            let log_sum = shifted.exp().unwrap().sum_keepdim(D::Minus1).unwrap().log().unwrap();
            let log_p = shifted.broadcast_sub(&log_sum).unwrap();
            let targets = Tensor::new(&batch.targets()[scored], &Device::Cpu).unwrap().unsqueeze(1).unwrap();
            logps.push(log_p.gather(&targets, 1).unwrap().squeeze(1).unwrap());
            entropies.push((log_p.exp().unwrap() * &log_p).unwrap().sum(D::Minus1).unwrap().neg().unwrap());
        }
        let logp = Tensor::cat(&logps, 0).unwrap();
        let entropy = Tensor::cat(&entropies, 0).unwrap();
        let scores = Scores { logp: logp.to_vec1().unwrap(), entropy: entropy.to_vec1().unwrap() };
        let wanted = loss.coefficients(0, batch, &scores).unwrap();
        let constant = |values: Vec<f32>| Tensor::new(values, &Device::Cpu).unwrap();
        let sum = (logp * constant(wanted.logp)).unwrap().sum_all().unwrap();
        let sum = (sum + (entropy * constant(wanted.entropy)).unwrap().sum_all().unwrap()).unwrap();
        let store = sum.backward().unwrap();
        (
            scores,
            self.vars.iter().map(|var| store.get(var).expect("autograd reaches every parameter").clone()).collect(),
        )
    }

    fn hidden(&self, ids: &[u32]) -> Tensor {
        let model = self.parameters.ids();
        let ids_tensor = Tensor::new(ids, &Device::Cpu).unwrap();
        let mut x = self.vars[model.embedding.index()].index_select(&ids_tensor, 0).unwrap();
        for (number, layer) in model.layers.iter().enumerate() {
            let normed = self.norm(&x, layer.input_norm);
            let linear = |x: &Tensor, ids: evenkeel_model::LinearIds| {
                let y = x.matmul(&self.vars[ids.weight.index()].t().unwrap()).unwrap();
                match ids.bias {
                    Some(bias) => y.broadcast_add(&self.vars[bias.index()]).unwrap(),
                    None => y,
                }
            };
            let turn = !self.config.layers_without_rope.contains(&number);
            let q = self.heads(&linear(&normed, layer.query), layer.query_norm, turn);
            let k = self.heads(&linear(&normed, layer.key), layer.key_norm, turn);
            let v = self.heads(&linear(&normed, layer.value), None, false);
            let attended = self.attention(&q, &k, &v);
            x = (x + linear(&attended, layer.output)).unwrap();
            let normed = self.norm(&x, layer.post_norm);
            let gate = linear(&normed, layer.gate).silu().unwrap();
            let gated = (gate * linear(&normed, layer.up)).unwrap();
            x = (x + linear(&gated, layer.down)).unwrap();
        }
        self.norm(&x, model.norm)
    }

    fn norm(&self, x: &Tensor, id: evenkeel_model::ParameterId) -> Tensor {
        let mean = x.sqr().unwrap().mean_keepdim(D::Minus1).unwrap();
        let rms = (mean + self.config.rms_norm_eps).unwrap().sqrt().unwrap();
        x.broadcast_div(&rms).unwrap().broadcast_mul(&self.vars[id.index()]).unwrap()
    }

    /// (n, heads * d) to (heads, n, d), normalised and rotated.
    fn heads(&self, x: &Tensor, norm: Option<evenkeel_model::ParameterId>, turn: bool) -> Tensor {
        let rows = x.dim(0).unwrap();
        let dim = self.config.head_dim;
        let x = x.reshape((rows, x.dim(1).unwrap() / dim, dim)).unwrap().transpose(0, 1).unwrap();
        let x = norm.map_or_else(|| x.clone(), |id| self.norm(&x, id));
        if !turn {
            return x.contiguous().unwrap();
        }
        let half = dim / 2;
        let amplitude = match self.config.rope.scaling {
            RopeScaling::Yarn(yarn) => yarn.attention_factor,
            _ => 1.0,
        };
        let angle = |p: usize, i: usize| p as f64 * self.frequency(2.0 * i as f64 / dim as f64);
        let table = |f: fn(f64) -> f64| {
            let values = (0..rows)
                .flat_map(|p| (0..half).map(move |i| (p, i)))
                .map(|(p, i)| (amplitude * f(angle(p, i))) as f32);
            Tensor::from_vec(values.collect::<Vec<_>>(), (rows, half), &Device::Cpu).unwrap()
        };
        let cos = table(f64::cos);
        let sin = table(f64::sin);
        let a = x.narrow(2, 0, half).unwrap();
        let b = x.narrow(2, half, half).unwrap();
        let left = (a.broadcast_mul(&cos).unwrap() - b.broadcast_mul(&sin).unwrap()).unwrap();
        let right = (b.broadcast_mul(&cos).unwrap() + a.broadcast_mul(&sin).unwrap()).unwrap();
        Tensor::cat(&[left, right], 2).unwrap()
    }

    /// Frequency of the pair at this part of a head.
    fn frequency(&self, part: f64) -> f64 {
        let plain = self.config.rope.theta.powf(-part);
        match self.config.rope.scaling {
            RopeScaling::None | RopeScaling::Dynamic { .. } => plain,
            RopeScaling::Linear { factor } => plain / factor,
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
                let waves = original_max_position_embeddings * plain / std::f64::consts::TAU;
                let kept = ((waves - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                plain * (kept + (1.0 - kept) / factor)
            }
            RopeScaling::Yarn(yarn) => {
                // The part of a head whose pairs turn that often within the original context.
                let turning = |turns: f64| {
                    let waves = yarn.original_max_position_embeddings / (turns * std::f64::consts::TAU);
                    waves.ln() / self.config.rope.theta.ln()
                };
                // In pairs: where the ramp is clamped is not a matter of the part.
                let pairs = self.config.head_dim as f64 / 2.0;
                let first = (pairs * turning(yarn.beta_fast)).max(0.0);
                let last = pairs * turning(yarn.beta_slow);
                assert!(last < 2.0 * pairs - 1.0 && !yarn.is_truncated);
                let divided = ((pairs * part - first) / (last - first)).clamp(0.0, 1.0);
                plain * (1.0 - divided) + plain / yarn.factor * divided
            }
        }
    }

    fn attention(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
        let (heads, rows, dim) = q.dims3().unwrap();
        let each = self.config.num_heads / self.config.num_kv_heads;
        let shared = |x: &Tensor| {
            let x = x.unsqueeze(1).unwrap().broadcast_as((heads / each, each, rows, dim)).unwrap();
            x.contiguous().unwrap().reshape((heads, rows, dim)).unwrap()
        };
        let k = shared(k);
        let v = shared(v);
        let scores = (q.matmul(&k.transpose(1, 2).unwrap()).unwrap() / (dim as f64).sqrt()).unwrap();
        let mask: Vec<f32> = (0..rows).flat_map(|i| (0..rows).map(move |j| if j <= i { 0.0 } else { -1e9 })).collect();
        let mask = Tensor::from_vec(mask, (1, rows, rows), &Device::Cpu).unwrap().to_dtype(DType::F32).unwrap();
        let scores = scores.broadcast_add(&mask).unwrap();
        let weights = scores.broadcast_sub(&scores.max_keepdim(D::Minus1).unwrap().detach()).unwrap().exp().unwrap();
        let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1).unwrap()).unwrap();
        let out = weights.matmul(&v).unwrap().transpose(0, 1).unwrap();
        out.contiguous().unwrap().reshape((rows, heads * dim)).unwrap()
    }
}
