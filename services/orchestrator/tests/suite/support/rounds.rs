//! Runs whose steps are sampled with several weights versions: which of them sample what follows from the data alone,
//! whatever is lost.

use std::collections::BTreeMap;

use evenkeel_orchestrator::{LoopSettings, RunOutcome, StopWhen};
use evenkeel_proto::v1::Segment;
use evenkeel_proto::{GroupId, Purpose};
use evenkeel_run::RunRecord;

use super::generation::Fate;
use super::{Cluster, GENERATION, LEARNER, finish, hash, lines, recipe, temp, uninterrupted, until};

/// Steps that end with a number of groups of newer weights.
pub(crate) fn split(max_lag: u32, split: u32) -> LoopSettings {
    let mut recipe = recipe();
    recipe.pipeline.max_lag = max_lag;
    recipe.pipeline.split = split;
    recipe.run.steps = 8;
    recipe
}

/// The first prompt of each step, as the samples that were requested show it.
fn cursors(cluster: &Cluster) -> BTreeMap<u64, u64> {
    let mut cursors = BTreeMap::new();
    for item in cluster.generation.state.seen.lock().unwrap().iter() {
        let id: GroupId = item.group_id.parse().unwrap();
        if id.purpose == Purpose::Train {
            let cursor = cursors.entry(id.step).or_insert(id.prompt);
            *cursor = id.prompt.min(*cursor);
        }
    }
    cursors
}

/// The round that samples a token, by its place in the answer and that of its group in the step.
fn round_of(recipe: &LoopSettings, place: u64, token: usize) -> u64 {
    let pipeline = &recipe.pipeline;
    let groups = u64::from(recipe.sampling.prompts_per_step);
    let versions = if pipeline.partial { u64::from(pipeline.max_versions) } else { 1 };
    let (first, last) = match place {
        place if place >= groups => (u64::from(pipeline.split > 0) + versions - 1, 1),
        place => (u64::from(place >= groups - u64::from(pipeline.split)), versions),
    };
    let part = token as u64 / u64::from(recipe.sampling.max_tokens).div_ceil(versions);
    first + part.min(last - 1)
}

/// Every token that the learner was sent is of the weights that the place of its group in the step and its own in the
/// answer say. Returns how many answers are of several.
pub(crate) fn assert_versions(cluster: &Cluster, recipe: &LoopSettings) -> usize {
    let mut of_several = 0;
    let cursors = cursors(cluster);
    let groups = cluster.learner.state.groups.lock().unwrap();
    assert_eq!(groups.len() as u64, recipe.run.steps);
    for (&step, groups) in groups.iter() {
        for group in groups {
            let place = group.group_id.parse::<GroupId>().unwrap().prompt - cursors[&step];
            for sample in &group.samples {
                let of_segment = |segment: &Segment| vec![segment.policy_version.unwrap(); segment.token_ids.len()];
                let versions: Vec<u64> = sample.segments.iter().flat_map(of_segment).collect();
                let weights = |token: usize| {
                    let round = round_of(recipe, place, token);
                    recipe.warm_start.steps + (step - 1 + round).saturating_sub(recipe.pipeline.max_lag.into())
                };
                let expected: Vec<u64> = (0..versions.len()).map(weights).collect();
                assert_eq!(versions, expected, "{}", sample.sample_id);
                of_several += usize::from(versions.first() != versions.last());
            }
        }
    }
    of_several
}

/// Runs to the end and audits it.
pub(crate) async fn assert_whole(recipe: &LoopSettings) -> Vec<String> {
    let (_dir, path) = temp();
    let cluster = Cluster::start().await;
    assert_eq!(cluster.run(&path, recipe).await.1.unwrap().0, RunOutcome::Completed);
    assert_versions(&cluster, recipe);
    let audit = evenkeel_run_report::audit(&RunRecord::read(&path).unwrap()).unwrap();
    assert!(audit.is_clean(), "{:?}", audit.faults());
    lines(&path)
}

/// Loses learner and generation service repeatedly.
pub(crate) async fn assert_survives_losses(recipe: &LoopSettings) {
    let (_dir, path) = temp();
    let mut cluster = Cluster::start().await;
    let losses = [(1, LEARNER), (2, GENERATION), (3, GENERATION), (4, LEARNER), (5, GENERATION)];
    cluster.run_with_losses(&path, recipe, &losses).await;
    assert_versions(&cluster, recipe);
    assert_eq!(lines(&path), uninterrupted(recipe).await);
}

/// Loses the engine of every fifth sample at each of its first two attempts.
pub(crate) async fn assert_survives_lost_engines(recipe: &LoopSettings) {
    let (_dir, path) = temp();
    let cluster = Cluster::start().await;
    *cluster.generation.state.fates.lock().unwrap() =
        Some(Box::new(
            |id, attempt| if attempt <= 2 && hash(id).is_multiple_of(5) { Fate::Lost } else { Fate::Answered },
        ));
    cluster.run(&path, recipe).await.1.unwrap();
    assert_versions(&cluster, recipe);
    assert_eq!(lines(&path), uninterrupted(recipe).await);
}

/// Stops a run after each of its steps in turn, and resumes it.
pub(crate) async fn assert_stops_and_goes_on(recipe: &LoopSettings) {
    let (_dir, path) = temp();
    let cluster = Cluster::start().await;
    let mut handle = cluster.begin(&path, recipe);
    let mut done = 0;
    while done < recipe.run.steps {
        let progress = handle.progress();
        until(|| progress.borrow().step > done).await;
        handle.stop(StopWhen::AfterStep);
        let steps = finish(handle).await.1.unwrap().1.steps;
        assert!(steps > done);
        done = steps;
        handle = cluster.resume(&path, recipe);
    }
    assert_eq!(finish(handle).await.1.unwrap().0, RunOutcome::Completed);
    assert_eq!(lines(&path), uninterrupted(recipe).await);
}
