//! Layers that passes over one text have in common: those under other weights than the newest version begin at the first
//! layer that has another tensor.

use evenkeel_model::{HiddenStates, Packed, Result, Scores, TrainableModel};

/// What passes under a whole version leave to those under others. `O` tells a tensor from all others of its name.
pub(crate) struct SharedLayers<O>(Option<WholePasses<O>>);

/// Passes under the newest version that scored.
struct WholePasses<O> {
    version: u64,
    /// Each trained parameter.
    origins: Vec<O>,
    states: HiddenStates,
}

impl<O> Default for SharedLayers<O> {
    fn default() -> Self {
        Self(None)
    }
}

impl<O: Clone + PartialEq> SharedLayers<O> {
    /// Log-probabilities and entropies by this network, with the bits of a whole pass. `origins`: its trained
    /// parameters. `whole`: the version that all of them are of, if they are of one.
    pub(crate) fn score(
        &mut self,
        network: &dyn TrainableModel,
        origins: &[O],
        whole: Option<u64>,
        batches: &[Packed],
        temperature: f32,
    ) -> Result<Vec<Scores>> {
        let newest = self.0.as_ref().map_or(0, |passes| passes.version);
        match (whole.filter(|&version| version >= newest), &self.0) {
            (Some(version), _) => {
                let same = self.0.take().filter(|passes| passes.origins == origins);
                let passes = self.0.insert(same.unwrap_or_else(|| WholePasses {
                    version,
                    origins: origins.to_vec(),
                    states: HiddenStates::new(network.config(), network.parameters()),
                }));
                network.score_keeping(batches, temperature, &mut passes.states)
            }
            (None, Some(WholePasses { origins: of_states, states, .. })) => {
                let pairs = of_states.iter().zip(origins).enumerate();
                let differing = pairs.filter(|(_, (one, other))| one != other).map(|(number, _)| number);
                network.score_from(batches, temperature, states, states.first_layer(differing))
            }
            (None, None) => network.score(batches, temperature),
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};
    use evenkeel_model::{Config, NetworkOptions, Parameters, network, tensor_groups};

    use super::*;
    use crate::test_model;

    fn config() -> Config {
        Config { num_layers: 4, tie_word_embeddings: false, ..test_model::config() }
    }

    /// Weights of this version, each with tensors of its own. `broken`: numbers of tensors that are no numbers.
    fn weights(version: u64, replaced: &[usize], by: u64, broken: &[usize]) -> Box<dyn TrainableModel> {
        let of = |version| Parameters::random(&config(), 7 + version, 0.2, &Device::Cpu).unwrap();
        let mut parameters = of(version);
        let other = of(by);
        for &number in replaced {
            parameters.trained_values_mut()[number] = other.trained_values()[number].clone();
        }
        for &number in broken {
            let value = &mut parameters.trained_values_mut()[number];
            *value = value.affine(f64::NAN, 0.0).unwrap();
        }
        network(config(), parameters, DType::F32, NetworkOptions::default()).unwrap()
    }

    fn text() -> Vec<Packed> {
        let mut batch = Packed::default();
        batch.push(&config(), &[2, 3, 4, 5], 1..4).unwrap();
        vec![batch]
    }

    fn bits(scores: &[Scores]) -> Vec<u32> {
        scores.iter().flat_map(|scores| &scores.logp).map(|value| value.to_bits()).collect()
    }

    /// Origins of a version, with those of replaced tensors.
    fn origins(version: u64, replaced: &[usize], by: u64) -> Vec<u64> {
        let count = Parameters::described(&config()).unwrap().trained().len();
        (0..count).map(|number| if replaced.contains(&number) { by } else { version }).collect()
    }

    fn whole(shared: &mut SharedLayers<u64>, version: u64) -> Vec<u32> {
        let network = weights(version, &[], 0, &[]);
        bits(&shared.score(&*network, &origins(version, &[], 0), Some(version), &text(), 1.0).unwrap())
    }

    /// The scores of a version with a stale group, where tensors of the layers before it are broken.
    fn stale(shared: &mut SharedLayers<u64>, version: u64, group: &[usize], broken: &[usize]) -> Vec<u32> {
        let network = weights(version, group, 0, broken);
        bits(&shared.score(&*network, &origins(version, group, 0), None, &text(), 1.0).unwrap())
    }

    #[test]
    fn a_stale_group_of_the_newest_version_begins_at_its_first_layer() {
        let groups = tensor_groups(&Parameters::described(&config()).unwrap());
        let mut shared = SharedLayers::default();
        let plain = |version, group: &[usize]| bits(&weights(version, group, 0, &[]).score(&text(), 1.0).unwrap());
        assert_eq!(whole(&mut shared, 2), plain(2, &[]));
        for version in [2, 1, 3] {
            // Older versions, and newer ones until they are scored, are others in every tensor.
            for group in &groups {
                assert_eq!(stale(&mut shared, version, &group.parameters, &[]), plain(version, &group.parameters));
            }
        }
        assert_eq!(whole(&mut shared, 1), plain(1, &[]), "which does not become the newest");
        let of = |name: &str| &groups.iter().find(|group| group.name == name).unwrap().parameters;
        for version in [2, 3] {
            for (name, first) in [("head", "layer 3"), ("layer 3", "layer 2"), ("layer 1", "layer 0")] {
                let found = stale(&mut shared, version, of(name), of(first));
                assert_eq!(found, plain(version, of(name)), "{first} is not computed for {name}");
            }
            let found = stale(&mut shared, version, of("layer 1"), of("layer 2"));
            assert!(found != plain(version, of("layer 1")), "layer 2 is computed");
            assert_eq!(whole(&mut shared, 3), plain(3, &[]));
        }
    }
}
