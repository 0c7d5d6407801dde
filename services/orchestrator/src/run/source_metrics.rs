//! The metrics of a step for each data source, where there are several.

use std::collections::BTreeMap;

use crate::metrics::{MetricsLine, Statistics};
use crate::rollout::{Sample, SampledGroup};

/// The values of each data source under `data_source/NAME`. `names` are those of the whole run, so that lines of all steps have the same.
/// Nothing where there is only one, of which the line as a whole says the same.
pub(super) fn source_values(line: &mut MetricsLine, names: &[String], groups: &[SampledGroup]) {
    if names.len() < 2 {
        return;
    }
    let mut by_source: BTreeMap<&str, Vec<&SampledGroup>> = BTreeMap::new();
    groups.iter().for_each(|group| by_source.entry(group.data_source()).or_default().push(group));
    for name in names {
        let groups = by_source.get(name.as_str()).map_or(&[] as &[&SampledGroup], Vec::as_slice);
        let key = |value: &str| format!("data_source/{name}/{value}");
        let samples = || groups.iter().flat_map(|group| group.samples());
        let mean = |value: &dyn Fn(&Sample) -> Option<f64>| Statistics::of(samples().filter_map(value)).mean();
        line.set(key("groups"), groups.len() as f64);
        line.set(key("score/mean"), mean(&|sample| Some(sample.rewards()?.raw)));
        line.set(key("rewards/mean"), mean(&|sample| Some(sample.rewards()?.shaped)));
        line.set(key("response_length/mean"), mean(&|sample| sample.is_generated().then_some(sample.tokens as f64)));
        line.set(key("invalid_samples"), samples().filter(|sample| sample.rewards().is_none()).count() as f64);
        let zero_advantage = groups.iter().filter(|group| group.is_zero_advantage()).count();
        line.set(key("groups_without_advantage"), zero_advantage as f64);
    }
}
