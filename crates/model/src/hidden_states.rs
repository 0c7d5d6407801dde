//! Hidden states between layers, kept from one pass over a text, so that passes over it under other weights can begin at
//! the first layer that differs.

use std::collections::{BTreeMap, HashMap};

use candle_core::{Device, Tensor};

use crate::config::Config;
use crate::error::Result;
use crate::pack::Packed;
use crate::parameters::Parameters;
use crate::tensor_groups::{first_layers, tensor_groups};

/// Most bytes of hidden states. Those of earlier texts make room.
const MOST_BYTES: usize = 256 << 20;

/// Hidden states of every token of some texts, in the host's memory: a float for each value before each layer at which a
/// [group of tensors](tensor_groups) begins, at most four layers, and at most 256 MiB.
///
/// A state depends on the tokens up to its own and on no other row, so it is found by these tokens: a text may come in
/// other batches, in another order or behind a shared prefix.
#[derive(Debug)]
pub struct HiddenStates {
    width: usize,
    most_rows: usize,
    /// Number of layers of the model.
    layers: usize,
    /// The layer that first reads each trained parameter.
    first_layers: Vec<usize>,
    /// The row of a token: by the row of the token before it, if there is one, and by its id.
    rows: HashMap<(Option<u32>, u32), u32>,
    /// The rows before each layer that is kept.
    states: BTreeMap<usize, Vec<f32>>,
}

impl HiddenStates {
    /// States for weights of which a group of tensors may differ. None are kept yet.
    pub fn new(config: &Config, parameters: &Parameters) -> Self {
        let first_layers = first_layers(parameters);
        let begins = tensor_groups(parameters).into_iter().filter_map(|group| {
            let layers = group.parameters.into_iter().map(|number| first_layers[number]);
            layers.min().filter(|&layer| layer > 0)
        });
        let states: BTreeMap<_, _> = begins.map(|layer| (layer, Vec::new())).collect();
        let width = config.hidden_size;
        let most_rows = MOST_BYTES / (size_of::<f32>() * width * states.len().max(1));
        Self { width, most_rows, layers: config.num_layers, first_layers, rows: HashMap::new(), states }
    }

    /// The first layer that reads one of these trained parameters, given by their numbers: the number of layers for
    /// those of the last norm and the head, and for none.
    ///
    /// # Panics
    /// A number of no trained parameter.
    pub fn first_layer(&self, parameters: impl IntoIterator<Item = usize>) -> usize {
        parameters.into_iter().map(|number| self.first_layers[number]).min().unwrap_or(self.layers)
    }

    /// The layers before which states are kept, ascending.
    pub(crate) fn layers(&self) -> impl Iterator<Item = usize> {
        self.states.keys().copied()
    }

    /// Keeps the states of a micro-batch before each of these layers, row by row.
    pub(crate) fn add(&mut self, batch: &Packed, states: &[Vec<f32>]) {
        let count = batch.ids().len();
        if self.rows.len() + count > self.most_rows {
            self.rows.clear();
            self.states.values_mut().for_each(Vec::clear);
        }
        if count > self.most_rows {
            return;
        }
        let Self { width, rows, states: kept, .. } = self;
        let mut at = 0;
        rows_of(batch, |before, id| {
            let next = rows.len() as u32;
            let row = *rows.entry((before, id)).or_insert_with(|| {
                let values = at * *width..(at + 1) * *width;
                kept.values_mut()
                    .zip(states)
                    .for_each(|(kept, states)| kept.extend_from_slice(&states[values.clone()]));
                next
            });
            at += 1;
            Some(row)
        });
    }

    /// The states of a micro-batch, (tokens, hidden), before the last layer up to this one that has them, and that
    /// layer. `None` if those of a token are missing.
    pub(crate) fn find(&self, batch: &Packed, layer: usize) -> Result<Option<(usize, Tensor)>> {
        let Some((&layer, states)) = self.states.range(..=layer).next_back() else { return Ok(None) };
        let rows = rows_of(batch, |before, id| self.rows.get(&(before, id)).copied());
        let Some(rows) = rows else { return Ok(None) };
        let values = rows.iter().flat_map(|&row| &states[row as usize * self.width..][..self.width]).copied();
        let tensor = Tensor::from_vec(values.collect(), (rows.len(), self.width), &Device::Cpu)?;
        Ok(Some((layer, tensor)))
    }
}

/// The row of each token, given what finds that of an id after another row; `None` if it does not find one.
fn rows_of(batch: &Packed, mut find: impl FnMut(Option<u32>, u32) -> Option<u32>) -> Option<Vec<u32>> {
    let mut rows: Vec<u32> = Vec::with_capacity(batch.ids().len());
    for segment in batch.segments() {
        let prefix = segment.prefix;
        let mut before = (prefix.length > 0).then(|| rows[prefix.first + prefix.length - 1]);
        for &id in &batch.ids()[segment.rows.first..][..segment.rows.length] {
            before = Some(find(before, id)?);
            rows.extend(before);
        }
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fresh::{FreshModel, FreshShape};

    fn config() -> Config {
        FreshModel { shape: FreshShape { hidden_size: 2, ..FreshShape::default() }, seed: 0 }.config()
    }

    /// A micro-batch of one text whose states before a layer are made of its ids and that layer.
    fn add(states: &mut HiddenStates, ids: &[u32]) {
        let batch = text(ids);
        let of_layer = |layer: usize| batch.ids().iter().flat_map(|&id| [id as f32, layer as f32]).collect();
        let kept: Vec<Vec<f32>> = states.layers().map(of_layer).collect();
        states.add(&batch, &kept);
    }

    fn text(ids: &[u32]) -> Packed {
        let mut batch = Packed::default();
        batch.push(&config(), &[ids, &[0]].concat(), [ids.len()]).unwrap();
        batch
    }

    fn found(states: &HiddenStates, ids: &[u32], layer: usize) -> Option<(usize, Vec<f32>)> {
        let found = states.find(&text(ids), layer).unwrap();
        found.map(|(layer, tensor)| (layer, tensor.flatten_all().unwrap().to_vec1().unwrap()))
    }

    #[test]
    fn states_are_found_by_the_tokens_before_them_at_the_last_layer_that_has_them() {
        let parameters = Parameters::described(&config()).unwrap();
        let mut states = HiddenStates::new(&config(), &parameters);
        assert_eq!(states.layers().collect::<Vec<_>>(), [1, 2, 3], "each layer of three, and the head");
        assert_eq!(found(&states, &[5, 6], 3), None);
        add(&mut states, &[5, 6]);
        add(&mut states, &[5, 7]);
        assert_eq!(states.rows.len(), 3, "what two texts begin with is kept once");
        assert_eq!(found(&states, &[5, 7], 2), Some((2, vec![5.0, 2.0, 7.0, 2.0])));
        assert_eq!(found(&states, &[5], 9), Some((3, vec![5.0, 3.0])));
        assert_eq!(
            (found(&states, &[5, 6], 0), found(&states, &[6], 3), found(&states, &[5, 6, 7], 3)),
            (None, None, None)
        );
    }

    #[test]
    fn earlier_texts_make_room_and_a_text_without_room_is_not_kept() {
        let parameters = Parameters::described(&config()).unwrap();
        let mut states = HiddenStates { most_rows: 4, ..HiddenStates::new(&config(), &parameters) };
        add(&mut states, &[1, 2]);
        add(&mut states, &[3, 4]);
        assert!(found(&states, &[1, 2], 3).is_some() && found(&states, &[3, 4], 3).is_some());
        add(&mut states, &[5]);
        assert!(found(&states, &[1, 2], 3).is_none() && found(&states, &[5], 3).is_some());
        add(&mut states, &[1, 2, 3, 4, 5]);
        assert!(found(&states, &[1], 3).is_none());
        assert!(states.states.values().all(Vec::is_empty));
    }
}
