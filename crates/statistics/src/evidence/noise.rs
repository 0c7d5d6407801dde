//! How far an engine's log-probabilities are from the learner's where both have the same weights: its noise.

/// Lower ends of the classes of probabilities: noise in a log-probability is smaller the likelier the token is, down to
/// a hundredth.
const CLASSES: [f64; 5] = [0.99, 0.9, 0.5, 0.1, 0.0];
/// Tokens by which the variance of all classes together counts in each, so that a class with few tokens has no extreme
/// one.
const PRIOR_TOKENS: f64 = 8.0;
/// The least noise in nats: rounding of f32 sums.
const LEAST: f64 = 1e-7;

/// Noise by the probability of tokens, from gaps of a calibration. It only weighs tokens: a wrong one costs tokens and
/// no truth.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    squares: [f64; CLASSES.len()],
    tokens: [f64; CLASSES.len()],
    /// Squared gaps and tokens of each sequence, by class.
    sequences: Vec<[(f64, f64); CLASSES.len()]>,
}

impl Default for Noise {
    fn default() -> Self {
        Self { squares: [0.0; CLASSES.len()], tokens: [0.0; CLASSES.len()], sequences: Vec::new() }
    }
}

impl Noise {
    /// Number of classes of probabilities.
    pub const CLASSES: usize = CLASSES.len();

    /// The class of a token's log-probability: the likeliest tokens are in class 0.
    pub fn class_of(log_probability: f64) -> usize {
        class_of(log_probability)
    }

    /// Variance of a token of each class, in squared nats.
    pub fn variances(&self) -> [f64; CLASSES.len()] {
        std::array::from_fn(|class| self.variance(class))
    }

    /// Adds a sequence of a calibration: for each token its log-probability and its gap, in nats. Values that are no
    /// numbers are left out.
    pub fn add(&mut self, tokens: impl IntoIterator<Item = (f64, f64)>) {
        let mut of_sequence = [(0.0, 0.0); CLASSES.len()];
        for (log_probability, gap) in tokens.into_iter().filter(|(_, gap)| gap.is_finite()) {
            let class = class_of(log_probability);
            self.squares[class] += gap * gap;
            self.tokens[class] += 1.0;
            of_sequence[class].0 += gap * gap;
            of_sequence[class].1 += 1.0;
        }
        if of_sequence.iter().any(|(_, tokens)| *tokens > 0.0) {
            self.sequences.push(of_sequence);
        }
    }

    /// Root mean square gap over all tokens, in nats; the least that f32 has where there are none.
    pub fn overall(&self) -> f64 {
        let squares = self.squares.iter().sum::<f64>();
        let tokens = self.tokens.iter().sum::<f64>();
        if tokens > 0.0 { (squares / tokens).sqrt().max(LEAST) } else { LEAST }
    }

    /// One over the variance of a token of this log-probability, in nats⁻².
    pub fn weight(&self, log_probability: f64) -> f64 {
        1.0 / self.variance(class_of(log_probability))
    }

    fn variance(&self, class: usize) -> f64 {
        let all = self.overall();
        let variance = (self.squares[class] + PRIOR_TOKENS * all * all) / (self.tokens[class] + PRIOR_TOKENS);
        variance.max(LEAST * LEAST)
    }

    /// The root mean square gap that 19 of 20 sequences stay below; the least that f32 has where there are none.
    pub fn usual_sequence(&self) -> f64 {
        self.usual(&[1.0; CLASSES.len()]).unwrap_or(LEAST).max(LEAST)
    }

    /// The root mean square gap that 19 of 20 sequences stay below, each gap by the standard deviation of its class, of
    /// which these are the squares; 1 where there are none.
    pub fn usual_size(&self, variances: &[f64; CLASSES.len()]) -> f64 {
        self.usual(variances).unwrap_or(1.0)
    }

    fn usual(&self, variances: &[f64; CLASSES.len()]) -> Option<f64> {
        let size = |sequence: &[(f64, f64); CLASSES.len()]| {
            let (sum, tokens) = sequence
                .iter()
                .zip(variances)
                .fold((0.0, 0.0), |(sum, all), ((squares, tokens), variance)| (sum + squares / variance, all + tokens));
            (sum / tokens).sqrt()
        };
        let mut sorted: Vec<f64> = self.sequences.iter().map(size).collect();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() * 19).div_ceil(20).max(1) - 1;
        sorted.get(at).copied()
    }

    /// Tokens that it was calibrated with.
    pub fn tokens(&self) -> f64 {
        self.tokens.iter().sum()
    }
}

fn class_of(log_probability: f64) -> usize {
    let probability = libm::exp(log_probability);
    CLASSES.iter().position(|least| probability >= *least).unwrap_or(CLASSES.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_likely_token_has_less_noise_and_more_weight() {
        let mut noise = Noise::default();
        noise.add((0..200).map(|number| (-0.001, if number % 2 == 0 { 0.0004 } else { -0.0004 })));
        noise.add((0..200).map(|number| (-4.0, if number % 2 == 0 { 0.06 } else { -0.06 })));
        assert!((1.0 / noise.weight(-4.0).sqrt() - 0.06).abs() < 0.005);
        assert!(noise.weight(-0.001) > 30.0 * noise.weight(-4.0));
        assert_eq!(noise.tokens(), 400.0);
        let [likely, .., unlikely] = noise.variances();
        assert!((likely * noise.weight(-0.001) - 1.0).abs() < 1e-12 && unlikely > likely);
    }

    #[test]
    fn an_engine_that_agrees_to_the_bit_has_the_least_noise() {
        let mut noise = Noise::default();
        noise.add([(-1.0, 0.0); 10]);
        assert_eq!((noise.overall(), noise.usual_sequence()), (LEAST, LEAST));
        assert!(noise.weight(-1.0).is_finite());
        assert_eq!(Noise::default().overall(), LEAST);
    }

    #[test]
    fn one_sequence_in_twenty_may_be_further_off() {
        let mut noise = Noise::default();
        (1..=100).for_each(|number| noise.add([(-1.0, f64::from(number) * 0.01)]));
        assert!((noise.usual_sequence() - 0.95).abs() < 1e-9);
        assert!((noise.usual_size(&[0.01; CLASSES.len()]) - 9.5).abs() < 1e-9);
        assert_eq!(Noise::default().usual_size(&[0.01; CLASSES.len()]), 1.0);
    }
}
