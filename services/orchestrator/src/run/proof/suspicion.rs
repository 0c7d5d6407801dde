//! What an engine may still have instead of the published weights.

use std::fmt;

use evenkeel_proto::BASE_GROUP;
use evenkeel_proto::v1::{ReplacedTensors, ScoreWeights};

/// A suspicion: weights that an engine may have under the label of a version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suspicion {
    /// All tensors are those of the version that the process began with, at least in part.
    Unchanged,
    /// All tensors are those of the version before.
    Behind,
    /// There are no adapters: it answers as their base.
    Base,
    /// There is more of the adapters than they are: what lacks without them is there once more.
    Excess,
    /// One group of tensors is that of the version that the process began with.
    Group(String),
}

/// The versions that suspicions are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Versions {
    /// Published last, and what engines should have.
    pub(super) current: u64,
    /// The one that this process began with.
    pub(super) anchor: u64,
    /// The one before the current one.
    before: u64,
}

impl Versions {
    /// Every step makes one version.
    pub(super) fn new(current: u64, anchor: u64) -> Self {
        Self { current, anchor, before: current.saturating_sub(1) }
    }
}

impl Suspicion {
    /// All of a model: groups as the learner names them.
    pub(super) fn all(groups: &[String]) -> Vec<Self> {
        let of_group = |group: &String| match group.as_str() {
            BASE_GROUP => vec![Self::Base, Self::Excess],
            group => vec![Self::Group(group.to_owned())],
        };
        [Self::Unchanged, Self::Behind].into_iter().chain(groups.iter().flat_map(of_group)).collect()
    }

    /// The suspicion, looked at before, whose prediction this one's is with the other sign.
    pub(super) fn mirrored(&self) -> Option<Self> {
        matches!(self, Self::Excess).then_some(Self::Base)
    }

    /// The weights that it supposes. `None` where they are the right ones, what another suspicion supposes, or none
    /// that anybody has.
    pub(super) fn weights(&self, versions: Versions) -> Option<ScoreWeights> {
        let Versions { current, anchor, before } = versions;
        let whole = |version| ScoreWeights { version, ..ScoreWeights::default() };
        let replaced = |group: &str, version| {
            let replaced = Some(ReplacedTensors { group: group.to_owned(), version });
            Some(ScoreWeights { replaced, ..whole(current) })
        };
        match self {
            // Whatever the version: also the first one of a process may have adapters that have learned.
            Self::Base => replaced(BASE_GROUP, current),
            Self::Excess => None,
            _ if current == anchor => None,
            Self::Unchanged => Some(whole(anchor)),
            Self::Behind => (before != anchor).then(|| whole(before)),
            Self::Group(group) => replaced(group, anchor),
        }
    }

    /// The name in metrics.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Unchanged => "unchanged".to_owned(),
            Self::Behind => "behind".to_owned(),
            Self::Base => BASE_GROUP.to_owned(),
            Self::Excess => "excess".to_owned(),
            Self::Group(group) => group.replace(' ', "_"),
        }
    }

    /// What an engine does of which it is true. `share`: how much of the predicted gap there is.
    pub(super) fn explain(&self, share: f64, anchor: u64) -> String {
        let percent = 100.0 * share;
        match self {
            Self::Unchanged if share > 0.9 => format!(
                "it still has the weights of version {anchor}, whatever version it reports: look whether it reads the \
                 folder of each new version, whether an adapter never arrived, and whether a cache answers for it"
            ),
            Self::Unchanged => format!("it lacks {percent:.0} % of every change since version {anchor}"),
            Self::Behind => "it is one version behind: look whether its update ends before it answers".to_owned(),
            Self::Base => format!(
                "it answers as the base model, without {percent:.0} % of the adapter, whatever version it reports: \
                 look whether it reads the folder of each version, whether the names of its tensors are those of its \
                 layers, and whether an adapter was evicted"
            ),
            Self::Excess => format!(
                "it adds {percent:.0} % too much of the adapter, whatever version it reports: look whether it scales \
                 by alpha / rank as the folder says them, and adds an adapter once"
            ),
            Self::Group(group) => {
                let hint = match group.as_str() {
                    "head" | "embeddings" => {
                        "; a vLLM that was started on a model with a tied head keeps the old one: start it on a copy \
                         that `evenkeel model untie` writes"
                    }
                    _ => "",
                };
                format!("its {group} are still those of version {anchor} ({percent:.0} % of what that predicts){hint}")
            }
        }
    }
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("nothing loaded"),
            Self::Behind => f.write_str("one version behind"),
            Self::Base => f.write_str("no adapter"),
            Self::Excess => f.write_str("too much of the adapter"),
            Self::Group(group) => write!(f, "old {group}"),
        }
    }
}

/// Which suspicions are looked at in a proof: always those about the whole of the weights, and groups of tensors in
/// turn.
#[derive(Debug)]
pub(super) struct Rotation {
    all: Vec<Suspicion>,
    /// How many groups are looked at.
    groups: usize,
    next: usize,
}

impl Rotation {
    pub(super) fn new(all: Vec<Suspicion>, groups: usize) -> Self {
        Self { all, groups, next: 0 }
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Suspicion] {
        &self.all
    }

    /// Suspicions of a proof of engines in f32 once all are excluded: their gap shows any other, which is then looked
    /// at.
    pub(super) fn short_turn(&mut self) -> Vec<Suspicion> {
        let Some((first, others)) = self.all.split_first() else { return Vec::new() };
        let at = self.next % others.len().max(1);
        self.next = at + 1;
        std::iter::once(first).chain(others.get(at)).cloned().collect()
    }

    /// Suspicions of the next proof.
    pub(super) fn turn(&mut self) -> Vec<Suspicion> {
        let (groups, whole): (Vec<_>, Vec<_>) =
            self.all.iter().cloned().partition(|suspicion| matches!(suspicion, Suspicion::Group(_)));
        let count = self.groups.min(groups.len());
        let first = self.next % groups.len().max(1);
        self.next = first + count;
        let turn = (0..count).map(|offset| groups[(first + offset) % groups.len()].clone());
        whole.into_iter().chain(turn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<String> {
        ["embeddings", "norms", "mlp"].map(str::to_owned).to_vec()
    }

    #[test]
    fn the_whole_of_the_weights_is_always_looked_at_and_groups_go_round() {
        let mut rotation = Rotation::new(Suspicion::all(&groups()), 2);
        let mut names = || rotation.turn().iter().map(Suspicion::name).collect::<Vec<_>>();
        assert_eq!(names(), ["unchanged", "behind", "embeddings", "norms"]);
        assert_eq!(names(), ["unchanged", "behind", "mlp", "embeddings"]);
        assert_eq!(rotation.short_turn().iter().map(Suspicion::name).collect::<Vec<_>>(), ["unchanged", "behind"]);
        let mut few = Rotation::new(Suspicion::all(&[]), 5);
        assert_eq!(few.turn(), [Suspicion::Unchanged, Suspicion::Behind]);
    }

    #[test]
    fn adapters_are_suspected_to_be_missing_in_every_proof() {
        let all = Suspicion::all(&["mlp".to_owned(), BASE_GROUP.to_owned()]);
        assert_eq!(
            all.iter().map(Suspicion::name).collect::<Vec<_>>(),
            ["unchanged", "behind", "mlp", "base", "excess"]
        );
        // Also of the version that a resumed process begins with.
        for versions in [Versions::new(4, 4), Versions::new(6, 4)] {
            let weights = all[3].weights(versions).unwrap();
            assert_eq!((weights.version, weights.replaced.unwrap().group.as_str()), (versions.current, "base"));
        }
        let mut rotation = Rotation::new(all, 1);
        for _ in 0..3 {
            let turn = rotation.turn();
            // What is mirrored comes after it.
            let at = |suspicion| turn.iter().position(|other| *other == suspicion).unwrap();
            assert!(at(Suspicion::Base) < at(Suspicion::Excess));
        }
        assert_eq!(Suspicion::Excess.weights(Versions::new(6, 4)), None);
    }

    #[test]
    fn a_suspicion_supposes_other_weights_than_the_right_ones() {
        let versions = Versions::new;
        let all = Suspicion::all(&groups());
        assert!(all.iter().all(|suspicion| suspicion.weights(versions(4, 4)).is_none()));
        // One version behind is the version of the beginning, once.
        assert!(Suspicion::Behind.weights(versions(5, 4)).is_none());
        assert_eq!(Suspicion::Behind.weights(versions(6, 4)).unwrap().version, 5);
        assert_eq!(Suspicion::Unchanged.weights(versions(6, 4)).unwrap().version, 4);
        let group = all[2].weights(versions(6, 4)).unwrap();
        let replaced = group.replaced.unwrap();
        assert_eq!((group.version, replaced.group.as_str(), replaced.version), (6, "embeddings", 4));
    }
}
